// SPDX-License-Identifier: GPL-2.0

//! Table lines.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::dm::own_io::{
        client::{
            Owner,
            RawClient, //
        },
        io::IoClient,
        kcopyd::KcopydClient,
        OwnIo, //
    },
    sync::workqueue::Workqueue, //
};

use super::{
    args::CtrError,
    delayed_work::{
        DelayedWork,
        WorkSource, //
    },
    devices::{
        DeviceIndex,
        Devices, //
    },
    event::{
        EventSource,
        TableEvent, //
    },
    target_type::TargetType, //
};

/// The table line under construction.
///
/// # Invariants
///
/// `ti` is a target whose `ctr` is running. `devices` were opened for it.
pub struct TargetBuilder<'a> {
    ti: *mut bindings::dm_target,
    pub(in crate::block::dm) devices: Devices,
    pub(super) events: Option<EventSource>,
    pub(super) own_io: OwnIo,
    pub(super) work: Option<WorkSource>,
    _target: PhantomData<&'a mut bindings::dm_target>,
}

impl TargetBuilder<'_> {
    /// Wraps the target whose `ctr` is running.
    ///
    /// # Safety
    ///
    /// The caller must be `ctr` of `ti`, and must put the devices that are opened. It must drop
    /// `events` before the table of `ti` is freed, `own_io` before it puts the devices, and `work`
    /// before the target is dropped.
    pub(super) unsafe fn new(ti: *mut bindings::dm_target) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            ti,
            devices: Devices::new(),
            events: None,
            own_io: OwnIo::default(),
            work: None,
            _target: PhantomData,
        }
    }

    /// Returns the first sector of the line on the mapped device.
    ///
    /// Context: Any context. Never sleeps.
    pub(super) fn begin_sectors(&self) -> u64 {
        // SAFETY: `ti` is alive by the type invariants.
        unsafe { (*self.ti).begin }
    }

    /// Returns the type of the target.
    pub(in crate::block::dm) fn target_type(&self) -> NonNull<TargetType> {
        // SAFETY: `ti` is alive by the type invariants. Its type is the first field of a
        // `TargetType`, as no other type has a `ctr` that makes a `TargetBuilder`.
        unsafe { NonNull::new_unchecked((*self.ti).type_.cast()) }
    }

    /// Returns the length of the line in sectors, at least 1.
    ///
    /// Context: Any context. Never sleeps.
    pub fn len_sectors(&self) -> u64 {
        // SAFETY: `ti` is alive by the type invariants.
        unsafe { (*self.ti).len }
    }

    /// Opens a device. The line uses as many sectors of the device as it has itself, from
    /// `start_sectors` on.
    ///
    /// As [`get_device_area()`](Self::get_device_area) with the length of the line.
    ///
    /// Context: As [`get_device_area()`](Self::get_device_area).
    pub fn get_device(&mut self, path: &CStr, start_sectors: u64) -> Result<DeviceIndex> {
        self.get_device_area(path, start_sectors, self.len_sectors())
    }

    /// Opens a device. The line uses `len_sectors` sectors of the device, from `start_sectors` on.
    ///
    /// Device mapper refuses the table if the area is not on the device, or not aligned to its
    /// blocks, and stacks the limits of the device (`iterate_devices`). A line may open the same
    /// device for several areas. The device is closed after the target is dropped.
    ///
    /// The area is no bound for bios: the block layer ends a bio beyond the end of the device.
    ///
    /// Fails with the error of opening the device, for example with [`ENODEV`].
    ///
    /// Context: Process context. May sleep. C: `dm_get_device()` in `drivers/md/dm-table.c`.
    pub fn get_device_area(
        &mut self,
        path: &CStr,
        start_sectors: u64,
        len_sectors: u64,
    ) -> Result<DeviceIndex> {
        // SAFETY: `ti` is a target whose `ctr` is running, by the type invariants.
        unsafe { self.devices.open(self.ti, path, start_sectors, len_sectors) }
    }

    /// Returns a handle that notifies user space of events of the mapped device.
    ///
    /// Fails with [`ENOMEM`] if the handle cannot be allocated.
    ///
    /// Context: Process context. May sleep.
    pub fn event(&mut self) -> Result<TableEvent> {
        let source = match &self.events {
            Some(source) => source,
            None => {
                // SAFETY: `ti` is alive, and its table is set, see `dm_table_add_target()` in
                // `drivers/md/dm-table.c`. `events` is dropped before the table is freed, by the
                // contract of `new()`.
                let source = unsafe { EventSource::new((*self.ti).table) }?;
                self.events.insert(source)
            }
        };
        Ok(source.event())
    }

    /// Returns a handle for I/O of the target to its devices.
    ///
    /// All handles of a target share one client.
    ///
    /// Fails with [`ENOMEM`] if the client cannot be allocated.
    ///
    /// Context: Process context. May sleep. C: `dm_io_client_create()` in `drivers/md/dm-io.c`.
    pub fn io_client(&mut self) -> Result<IoClient> {
        if self.own_io.io.is_none() {
            self.own_io.io = Some(self.new_client()?);
        }
        self.own_io.io.as_ref().map(IoClient::new).ok_or(ENOMEM)
    }

    /// Returns a handle that copies areas of the devices of the target.
    ///
    /// All handles of a target share one client, which reserves 512 KiB of memory.
    ///
    /// Fails with [`ENOMEM`] if the client cannot be allocated.
    ///
    /// Context: Process context. May sleep. C: `dm_kcopyd_client_create()` in
    /// `drivers/md/dm-kcopyd.c`.
    pub fn kcopyd_client(&mut self) -> Result<KcopydClient> {
        if self.own_io.kcopyd.is_none() {
            self.own_io.kcopyd = Some(self.new_client()?);
        }
        let owner = self.own_io.kcopyd.as_ref();
        owner.map(KcopydClient::new).ok_or(ENOMEM)
    }

    fn new_client<C: RawClient>(&self) -> Result<Owner<C>> {
        // SAFETY: `ti` is alive by the type invariants, and its table is set, see `get_device()`.
        let mode = unsafe { bindings::dm_table_get_mode((*self.ti).table) };
        let is_writable = mode & bindings::BLK_OPEN_WRITE != 0;
        // SAFETY: The type is alive while `ti` is.
        let module = unsafe { (*(*self.ti).type_).module };
        // SAFETY: The result is dropped before the devices are put, by the contract of `new()`. The
        // table has a reference to the module, see `get_target_type()` in `drivers/md/dm-target.c`.
        unsafe { Owner::new(self.devices.id(), is_writable, module) }
    }

    /// Returns a handle that runs [`Target::delayed_work()`] on `queue` after a delay.
    ///
    /// A target that delays bios needs a [`Workqueue`], which makes progress under memory pressure.
    ///
    /// Fails with [`EBUSY`] if this was called before: there is one work item. Fails with
    /// [`ENOMEM`] if the work item cannot be allocated.
    ///
    /// Context: Process context. May sleep. C: `timer_setup()`, `INIT_WORK()`.
    ///
    /// [`Target::delayed_work()`]: crate::block::dm::Target::delayed_work
    pub fn delayed_work(&mut self, queue: Arc<Workqueue>) -> Result<DelayedWork> {
        if self.work.is_some() {
            return Err(EBUSY);
        }
        let source = WorkSource::new(self.target_type(), queue)?;
        Ok(self.work.insert(source).handle())
    }

    /// Returns the logical block size of `device` in bytes, a power of two.
    ///
    /// Fails with [`ENODEV`] if `device` belongs to another target.
    ///
    /// Context: Any context. Never sleeps. C: `bdev_logical_block_size()`.
    pub fn logical_block_size(&self, device: DeviceIndex) -> Result<NonZeroU32> {
        let bdev = self.devices.bdev(device).ok_or(ENODEV)?;
        // SAFETY: The device is open, see `Devices::bdev()`.
        NonZeroU32::new(unsafe { bindings::bdev_logical_block_size(bdev) }).ok_or(ENODEV)
    }

    /// Returns whether `device` is zoned. Returns `false` for a device of another target.
    ///
    /// Context: Any context. Never sleeps. C: `bdev_is_zoned()`.
    pub fn is_zoned(&self, device: DeviceIndex) -> bool {
        self.devices.bdev(device).is_some_and(|bdev| {
            // SAFETY: The device is open, see `Devices::bdev()`.
            unsafe { bindings::bdev_is_zoned(bdev) }
        })
    }

    /// Returns whether `device` is rotational. Returns `false` for a device of another target.
    ///
    /// Context: Any context. Never sleeps. C: `bdev_rot()`.
    pub fn is_rotational(&self, device: DeviceIndex) -> bool {
        self.devices.bdev(device).is_some_and(|bdev| {
            // SAFETY: The device is open, see `Devices::bdev()`.
            unsafe { bindings::bdev_rot(bdev) }
        })
    }

    /// Returns the name of the mapped device, `<major>:<minor>`.
    ///
    /// Context: Any context. Never sleeps. C: `dm_table_device_name()`.
    pub fn device_name(&self) -> &CStr {
        // SAFETY: `ti` is alive by the type invariants, and its table is set, see `get_device()`.
        let name = unsafe { bindings::dm_table_device_name((*self.ti).table) };
        // SAFETY: The name is NUL-terminated, see `alloc_dev()` in `drivers/md/dm.c`. It does not
        // change while the device exists, and the device exists while `ctr` runs.
        unsafe { CStr::from_char_ptr(name) }
    }

    /// Enables zone-append emulation (`dm_target::emulate_zone_append`).
    ///
    /// A zone append then arrives as an ordinary write with a known sector. On zoned devices, the
    /// target must submit the write of a bio before `map` returns.
    ///
    /// Context: Any context. Never sleeps. Without `CONFIG_BLK_DEV_ZONED` there are no such
    /// devices.
    pub fn emulate_zone_append(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_emulate_zone_append_raw(self.ti, true) };
    }

    /// Splits reads and writes where their sector in the line is a multiple of `len_sectors`, so
    /// that none is longer.
    ///
    /// Other operations are not split. The table line is refused if it has a zoned device, too: a
    /// write to a zone must not be split. It is also refused if `len_sectors` has a part of a
    /// logical block of a device of the line.
    ///
    /// Context: Any context. Never sleeps. C: `dm_set_target_max_io_len()` in `drivers/md/dm.c`.
    pub fn set_max_io_len(&mut self, len_sectors: NonZeroU32) {
        // The C function fails for a length above `u32::MAX` only.
        //
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        let _ = unsafe { bindings::dm_set_target_max_io_len(self.ti, len_sectors.get().into()) };
    }

    /// Requests `count` bios for each flush: bios for which [`MapBio::is_flush()`] is true.
    ///
    /// [`MapBio::target_bio_nr()`] tells them apart. The default is 0: flushes do not reach the
    /// target.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`MapBio::is_flush()`]: crate::block::dm::MapBio::is_flush
    /// [`MapBio::target_bio_nr()`]: crate::block::dm::MapBio::target_bio_nr
    pub fn set_num_flush_bios(&mut self, count: u16) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_flush_bios = count.into() };
    }

    /// Requests `count` bios for each discard, if the devices below support discards.
    ///
    /// The default is 0: the mapped device has no discards. The table line is refused if `count` is
    /// more than 1 and more than the number of flush bios: device mapper allocates all bios of an
    /// operation before it sends the first, from a pool with room for the flush bios.
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_num_discard_bios(&mut self, count: u16) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_discard_bios = count.into() };
    }

    /// Requests `count` bios for each secure erase, if the devices below support it.
    ///
    /// The default and the limit are as in
    /// [`set_num_discard_bios()`](Self::set_num_discard_bios).
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_num_secure_erase_bios(&mut self, count: u16) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_secure_erase_bios = count.into() };
    }

    /// Requests `count` bios for each write of zeroes, if the devices below support it.
    ///
    /// The default and the limit are as in
    /// [`set_num_discard_bios()`](Self::set_num_discard_bios).
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_num_write_zeroes_bios(&mut self, count: u16) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_write_zeroes_bios = count.into() };
    }

    /// Requests discards even if the devices below do not support them, or there are none.
    ///
    /// Device mapper ignores it, with a message, unless
    /// [`set_num_discard_bios()`](Self::set_num_discard_bios) was called, too. Then
    /// [`Limits::set_max_hw_discard_sectors()`] sets the length that the devices do not.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`Limits::set_max_hw_discard_sectors()`]:
    ///     crate::block::dm::Limits::set_max_hw_discard_sectors
    pub fn set_discards_supported(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_discards_supported_raw(self.ti, true) };
    }

    /// Sends flushes to the devices of the table without [`Target::map()`], if all lines of the
    /// table request that. Each device gets one flush, even if several areas of it are in use.
    ///
    /// For a target that ends a write only after its devices have, and does nothing else for a
    /// flush. If the table has a single device, a write with data may be a flush, too: see
    /// [`MapBio::is_flush()`].
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`MapBio::is_flush()`]: crate::block::dm::MapBio::is_flush
    /// [`Target::map()`]: crate::block::dm::Target::map
    pub fn set_flush_bypasses_map(&mut self) {
        // Device mapper walks the list of devices without a lock, so a target must not change it:
        // devices are opened in `ctr`, and closed after the last flush.
        //
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_flush_bypasses_map_raw(self.ti, true) };
    }

    /// Limits the number of swap bios in flight, for a target that allocates memory for each bio.
    ///
    /// Context: Any context. Never sleeps.
    pub fn limit_swap_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_limit_swap_bios_raw(self.ti, true) };
    }

    /// Sets the fields that are the same for all targets.
    ///
    /// `per_io_data_size` is the size of the per-bio data in bytes.
    pub(super) fn set_per_bio(&mut self, per_io_data_size: u32) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).per_io_data_size = per_io_data_size };
        // SAFETY: As above.
        unsafe { bindings::dm_target::set_accounts_remapped_io_raw(self.ti, true) };
    }

    /// Fails if device mapper cannot handle the requests together.
    pub(super) fn check(&self) -> Result<(), CtrError> {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        let ti = unsafe { &*self.ti };
        let most = ti
            .num_discard_bios
            .max(ti.num_secure_erase_bios)
            .max(ti.num_write_zeroes_bios);

        // `alloc_multiple_bios()` in `drivers/md/dm.c` waits until all bios are allocated. Only the
        // number of flush bios enlarges the pool, see `dm_table_alloc_md_mempools()`.
        if most > ti.num_flush_bios.max(1) {
            return Err(CtrError::invalid(
                c"More bios of an operation than of a flush",
            ));
        }
        if ti.max_io_len != 0 && self.devices.any_is_zoned() {
            return Err(CtrError::invalid(
                c"Zoned devices cannot be used with a maximum I/O length",
            ));
        }
        if !self.devices.have_whole_blocks(ti.max_io_len) {
            return Err(CtrError::invalid(
                c"The maximum I/O length is no multiple of the logical block size",
            ));
        }
        Ok(())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_ctr)]
mod tests {
    use super::*;

    /// The requests of a line.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Requests {
        emulate_zone_append: bool,
        max_io_len: u32,
        flush_bios: u32,
        discard_bios: u32,
        secure_erase_bios: u32,
        write_zeroes_bios: u32,
        discards_supported: bool,
        flush_bypasses_map: bool,
        limit_swap_bios: bool,
    }

    /// Returns the requests of a line after a call of `method`, and whether they are accepted.
    fn checked(method: impl FnOnce(&mut TargetBuilder<'_>)) -> Result<(Requests, bool)> {
        let mut ti = KBox::new(bindings::dm_target::default(), GFP_KERNEL)?;
        // SAFETY: The methods only write fields of the target, which no device mapper uses.
        let mut builder = unsafe { TargetBuilder::new(&raw mut *ti) };
        method(&mut builder);
        let is_accepted = builder.check().is_ok();
        drop(builder);
        let requests = Requests {
            emulate_zone_append: ti.emulate_zone_append(),
            max_io_len: ti.max_io_len,
            flush_bios: ti.num_flush_bios,
            discard_bios: ti.num_discard_bios,
            secure_erase_bios: ti.num_secure_erase_bios,
            write_zeroes_bios: ti.num_write_zeroes_bios,
            discards_supported: ti.discards_supported(),
            flush_bypasses_map: ti.flush_bypasses_map(),
            limit_swap_bios: ti.limit_swap_bios(),
        };
        Ok((requests, is_accepted))
    }

    #[test]
    fn each_method_makes_one_request() -> Result {
        let len = NonZeroU32::new(24).ok_or(EINVAL)?;
        let requests = |method: &dyn Fn(&mut TargetBuilder<'_>)| Ok::<_, Error>(checked(method)?.0);
        macro_rules! check {
            ($method:expr, $field:ident: $value:expr) => {
                let expected = Requests {
                    $field: $value,
                    ..Requests::default()
                };
                assert_eq!(requests(&$method)?, expected);
            };
        }

        assert_eq!(requests(&|_| ())?, Requests::default());
        check!(|line: &mut TargetBuilder<'_>| line.emulate_zone_append(), emulate_zone_append: true);
        check!(|line: &mut TargetBuilder<'_>| line.set_max_io_len(len), max_io_len: 24);
        check!(|line: &mut TargetBuilder<'_>| line.set_num_flush_bios(3), flush_bios: 3);
        check!(|line: &mut TargetBuilder<'_>| line.set_num_discard_bios(4), discard_bios: 4);
        check!(|line: &mut TargetBuilder<'_>| line.set_num_secure_erase_bios(5), secure_erase_bios: 5);
        check!(|line: &mut TargetBuilder<'_>| line.set_num_write_zeroes_bios(6), write_zeroes_bios: 6);
        check!(|line: &mut TargetBuilder<'_>| line.set_discards_supported(), discards_supported: true);
        check!(|line: &mut TargetBuilder<'_>| line.set_flush_bypasses_map(), flush_bypasses_map: true);
        check!(|line: &mut TargetBuilder<'_>| line.limit_swap_bios(), limit_swap_bios: true);
        Ok(())
    }

    /// The pool of device mapper has room for the flush bios, and for one bio without them.
    #[test]
    fn no_operation_has_more_bios_than_a_flush() -> Result {
        let set: [fn(&mut TargetBuilder<'_>, u16); 3] = [
            |line, count| line.set_num_discard_bios(count),
            |line, count| line.set_num_secure_erase_bios(count),
            |line, count| line.set_num_write_zeroes_bios(count),
        ];
        for method in set {
            for (flush, other, is_accepted) in [
                (0, 1, true),
                (0, 2, false),
                (1, 2, false),
                (2, 2, true),
                (u16::MAX, u16::MAX, true),
                (u16::MAX - 1, u16::MAX, false),
            ] {
                let (_, found) = checked(|line| {
                    // The order does not matter.
                    method(line, other);
                    line.set_num_flush_bios(flush);
                })?;
                assert_eq!(found, is_accepted);
            }
        }
        Ok(())
    }

    /// A block device and its queue. Only the queue and the block sizes of it are valid.
    struct Disk {
        bdev: KBox<bindings::block_device>,
        _queue: KBox<bindings::request_queue>,
    }

    impl Disk {
        /// Returns a disk with blocks of this size, on larger physical blocks.
        fn new(block_bytes: u32) -> Result<Self> {
            // They are too large for the stack.
            let queue = KBox::<bindings::request_queue>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
            let bdev = KBox::<bindings::block_device>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
            // SAFETY: All bytes are zero, as those of the default values.
            let (mut queue, mut bdev) = unsafe { (queue.assume_init(), bdev.assume_init()) };
            queue.limits.logical_block_size = block_bytes;
            queue.limits.physical_block_size = 8 * block_bytes;
            bdev.bd_queue = &raw mut *queue;
            Ok(Self {
                bdev,
                _queue: queue,
            })
        }

        /// Adds the disk to the devices of a line.
        fn add_to(&mut self, line: &mut TargetBuilder<'_>) -> Result<DeviceIndex> {
            let dev = bindings::dm_dev {
                bdev: &raw mut *self.bdev,
                ..pin_init::zeroed()
            };
            // SAFETY: Only the block sizes of the device are used, and nothing closes it. The disk lives
            // longer than the line.
            unsafe { line.devices.push(&dev, 0, 1) }
        }
    }

    #[test]
    fn blocks_of_a_device_are_logical() -> Result {
        let mut ti = KBox::new(bindings::dm_target::default(), GFP_KERNEL)?;
        for (block_bytes, len_sectors, is_accepted) in
            [(512, 1, true), (4096, 1, false), (4096, 8, true)]
        {
            let mut disk = Disk::new(block_bytes)?;
            // SAFETY: As in `checked()`.
            let mut line = unsafe { TargetBuilder::new(&raw mut *ti) };
            let device = disk.add_to(&mut line)?;

            assert_eq!(line.logical_block_size(device)?.get(), block_bytes);
            line.set_max_io_len(NonZeroU32::new(len_sectors).ok_or(EINVAL)?);
            assert_eq!(line.check().is_ok(), is_accepted);
        }
        Ok(())
    }

    #[test]
    fn device_of_another_line_has_no_blocks() -> Result {
        let mut ti = KBox::new(bindings::dm_target::default(), GFP_KERNEL)?;
        let (mut theirs, mut ours) = (Disk::new(512)?, Disk::new(512)?);
        // SAFETY: As in `checked()`.
        let mut other = unsafe { TargetBuilder::new(&raw mut *ti) };
        let device = theirs.add_to(&mut other)?;
        // SAFETY: As above.
        let mut line = unsafe { TargetBuilder::new(&raw mut *ti) };
        ours.add_to(&mut line)?;

        assert_eq!(line.logical_block_size(device).err(), Some(ENODEV));
        Ok(())
    }
}
