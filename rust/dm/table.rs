// SPDX-License-Identifier: GPL-2.0

//! Table lines: their devices and limits.

use kernel::{
    error::to_result,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::bindings;

/// A device of a target: a number that means something to that target only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device(u32);

/// The devices of a target.
///
/// # Invariants
///
/// Each `dev` came from `dm_get_device()` for the target, and was not put, and `bdev` is its block
/// device, which is open. The `bdev` stays the same even if a target written in C makes device mapper
/// reopen the device for another mode, `upgrade_mode()`.
pub(super) struct Devices(KVec<OpenDevice>);

struct OpenDevice {
    dev: *mut bindings::dm_dev,
    bdev: *mut bindings::block_device,
    start_sectors: u64,
}

// SAFETY: The devices may be put by another task than the one that got them: `dtr` may run on any.
unsafe impl Send for Devices {}

// SAFETY: Nothing in a `dm_dev` changes while it is held, and `&Devices` only reads it.
unsafe impl Sync for Devices {}

impl Devices {
    pub(super) const fn new() -> Self {
        // INVARIANT: Holds vacuously.
        Self(KVec::new())
    }

    fn get(&self, device: Device) -> Option<&OpenDevice> {
        // CAST: From 32 to 64 bits.
        self.0.get(device.0 as usize)
    }

    /// Returns the block device, open as long as `self` is borrowed and longer: until `put_all()`.
    #[inline]
    pub(super) fn bdev(&self, device: Device) -> Option<*mut bindings::block_device> {
        Some(self.get(device)?.bdev)
    }

    /// Returns the device's number as `major:minor`.
    pub(super) fn name(&self, device: Device) -> Option<&str> {
        let dev = self.get(device)?.dev;
        // SAFETY: The device was not put, by the type invariants, and `name` is written before
        // `dm_get_device()` returns and NUL-terminated, see `format_dev_t()`.
        let name = unsafe { CStr::from_char_ptr((*dev).name.as_ptr()) };
        name.to_str().ok()
    }

    /// Calls `func` for each device, with its first sector, until it returns something but 0.
    pub(super) fn iterate(
        &self,
        mut func: impl FnMut(*mut bindings::dm_dev, u64) -> kernel::ffi::c_int,
    ) -> kernel::ffi::c_int {
        self.0
            .iter()
            .map(|open| func(open.dev, open.start_sectors))
            .find(|&result| result != 0)
            .unwrap_or(0)
    }

    /// Puts the devices.
    ///
    /// # Safety
    ///
    /// `ti` must be the target that they were got for, and the caller its `ctr` or `dtr`.
    pub(super) unsafe fn put_all(self, ti: *mut bindings::dm_target) {
        for open in self.0 {
            // SAFETY: The device was got for `ti` and not put yet, by the type invariants, and
            // `dm_put_device()` may be called here, by this function's contract.
            unsafe { bindings::dm_put_device(ti, open.dev) };
        }
    }
}

/// The table line that is being constructed.
///
/// # Invariants
///
/// `ti` is a target whose `ctr` is running. `devices` were got for it.
pub struct Table<'a> {
    ti: *mut bindings::dm_target,
    pub(super) devices: Devices,
    _target: PhantomData<&'a mut bindings::dm_target>,
}

impl Table<'_> {
    /// Wraps the target whose `ctr` is running.
    ///
    /// # Safety
    ///
    /// The caller must be `ctr` of `ti`, and put the devices that are got.
    pub(super) unsafe fn new(ti: *mut bindings::dm_target) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            ti,
            devices: Devices::new(),
            _target: PhantomData,
        }
    }

    /// Returns the first sector of the line, on the mapped device.
    ///
    /// Context: Any.
    pub fn begin_sectors(&self) -> u64 {
        // SAFETY: `ti` is alive by the type invariants.
        unsafe { (*self.ti).begin }
    }

    /// Returns the length of the line in sectors, at least 1.
    ///
    /// Context: Any.
    pub fn len_sectors(&self) -> u64 {
        // SAFETY: `ti` is alive by the type invariants.
        unsafe { (*self.ti).len }
    }

    /// Opens a device of which the line will use as many sectors as it has, from `start_sectors`
    /// on.
    ///
    /// Device mapper refuses the table if the device is shorter than that, and takes the device's
    /// limits into account (`iterate_devices`). The device is closed after the target was dropped.
    ///
    /// Fails as opening the device does, for example with [`ENODEV`].
    ///
    /// Context: Process context; sleeps. C: `dm_get_device()` in `drivers/md/dm-table.c`.
    pub fn get_device(&mut self, path: &CStr, start_sectors: u64) -> Result<Device> {
        self.devices.0.reserve(1, GFP_KERNEL)?;
        let index = u32::try_from(self.devices.0.len()).map_err(|_| EINVAL)?;

        // SAFETY: `ti` is alive by the type invariants, and its table is set, see
        // `dm_table_add_target()` in `drivers/md/dm-table.c`.
        let mode = unsafe { bindings::dm_table_get_mode((*self.ti).table) };
        let mut dev = core::ptr::null_mut();
        // SAFETY:
        // - `ti` is a target whose `ctr` is running, by the type invariants.
        // - `path` is NUL-terminated, and `dev` can be written to.
        // - `mode` is the table's, so no target of ours makes device mapper reopen the device for a
        //   wider one, which leaves other targets with stale pointers, `upgrade_mode()`.
        to_result(unsafe { bindings::dm_get_device(self.ti, path.as_char_ptr(), mode, &mut dev) })?;
        // SAFETY: The device was just got, so it is open.
        let bdev = unsafe { (*dev).bdev };
        // INVARIANT: The device was just got for `ti`. There is room for it.
        self.devices
            .0
            .push_within_capacity(OpenDevice {
                dev,
                bdev,
                start_sectors,
            })
            .map_err(|_| ENOMEM)?;
        Ok(Device(index))
    }

    /// Returns the size of what `device` reads and writes at once, in bytes: a power of two.
    ///
    /// Fails with [`ENODEV`] if it is a device of another target.
    ///
    /// Context: Any. C: `bdev_logical_block_size()`.
    pub fn logical_block_size(&self, device: Device) -> Result<NonZeroU32> {
        let bdev = self.devices.bdev(device).ok_or(ENODEV)?;
        // SAFETY: The device is open, see `Devices::bdev()`.
        NonZeroU32::new(unsafe { bindings::bdev_logical_block_size(bdev) }).ok_or(ENODEV)
    }

    /// Tells whether writes to `device` go to zones, in order. A device of another target is not.
    ///
    /// Context: Any. C: `bdev_is_zoned()`.
    pub fn is_zoned(&self, device: Device) -> bool {
        self.devices.bdev(device).is_some_and(|bdev| {
            // SAFETY: The device is open, see `Devices::bdev()`.
            unsafe { bindings::bdev_is_zoned(bdev) }
        })
    }

    /// Tells whether `device` has heads to move. A device of another target has none.
    ///
    /// Context: Any. C: `bdev_rot()`.
    pub fn is_rotational(&self, device: Device) -> bool {
        self.devices.bdev(device).is_some_and(|bdev| {
            // SAFETY: The device is open, see `Devices::bdev()`.
            unsafe { bindings::bdev_rot(bdev) }
        })
    }

    /// Returns the name of the mapped device, `<major>:<minor>`.
    ///
    /// Context: Any. C: `dm_table_device_name()`.
    pub fn device_name(&self) -> &CStr {
        // SAFETY: `ti` is alive by the type invariants, and its table is set, see `get_device()`.
        let name = unsafe { bindings::dm_table_device_name((*self.ti).table) };
        // SAFETY: The name is NUL-terminated, see `alloc_dev()` in `drivers/md/dm.c`, and does not
        // change while the device is there, which it is while `ctr` runs.
        unsafe { CStr::from_char_ptr(name) }
    }

    /// Has writes that are to be appended to a zone come as ordinary ones, whose sector is known.
    ///
    /// Such devices must have a bio's write sent before `map` returns.
    ///
    /// Context: Any. Without `CONFIG_BLK_DEV_ZONED` there are no such devices.
    pub fn emulate_zone_append(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_emulate_zone_append_raw(self.ti, true) };
    }

    /// Asks for flushes: bios for which [`MapBio::is_flush()`] is true.
    ///
    /// Context: Any.
    ///
    /// [`MapBio::is_flush()`]: super::MapBio::is_flush
    pub fn send_flush_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_flush_bios = 1 };
    }

    /// Asks for discards, if the devices below support them.
    ///
    /// Context: Any.
    pub fn send_discard_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_discard_bios = 1 };
    }

    /// Limits how many bios of swap are in flight, for a target that needs memory for each.
    ///
    /// Context: Any.
    pub fn limit_swap_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_limit_swap_bios_raw(self.ti, true) };
    }

    /// Sets what is right for every target.
    ///
    /// `per_io_data_size` is the size of the per-bio data in bytes.
    pub(super) fn set_per_bio(&mut self, per_io_data_size: u32) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).per_io_data_size = per_io_data_size };
        // SAFETY: As above.
        unsafe { bindings::dm_target::set_accounts_remapped_io_raw(self.ti, true) };
    }
}

/// The queue limits of a mapped device, in [`Target::io_hints()`].
///
/// # Invariants
///
/// `limits` may be written to for `'a`.
///
/// [`Target::io_hints()`]: super::Target::io_hints
pub struct Limits<'a> {
    limits: NonNull<bindings::queue_limits>,
    _limits: PhantomData<&'a mut bindings::queue_limits>,
}

impl Limits<'_> {
    /// Wraps the limits.
    ///
    /// # Safety
    ///
    /// `limits` must be valid for reads and writes for as long as `self` lives.
    pub(super) unsafe fn new(limits: NonNull<bindings::queue_limits>) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            limits,
            _limits: PhantomData,
        }
    }

    /// Raises the block sizes and the minimum I/O size to at least `bytes`.
    ///
    /// Context: Any. C: `dm_stack_bs_limits()`.
    pub fn stack_block_size(&mut self, bytes: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { bindings::dm_stack_bs_limits(self.limits.as_ptr(), bytes.get()) };
    }

    /// Lets nobody poll for the completion of bios.
    pub(super) fn disable_polling(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).features &= !bindings::BLK_FEAT_POLL };
    }

    /// Has no bio longer than `sectors`.
    ///
    /// Device mapper itself splits longer ones, also those that a target must not split.
    ///
    /// Context: Any.
    pub fn limit_bio_sectors(&mut self, sectors: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limit = &raw mut (*self.limits.as_ptr()).max_hw_sectors;
            *limit = (*limit).min(sectors.get());
        }
    }

    /// Has no atomic write longer than `bytes`.
    ///
    /// Context: Any.
    pub fn limit_atomic_writes(&mut self, bytes: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            (*limits).atomic_write_hw_max = (*limits).atomic_write_hw_max.min(bytes.get());
            (*limits).atomic_write_hw_unit_max =
                (*limits).atomic_write_hw_unit_max.min(bytes.get());
        }
    }

    /// Asks that memory for direct I/O be aligned to the logical block size.
    ///
    /// Context: Any.
    pub fn align_dma_to_logical_block_size(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            (*limits).dma_alignment = (*limits).logical_block_size.saturating_sub(1);
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_table)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_another_target_is_not_found() {
        let devices = Devices::new();
        assert!(devices.bdev(Device(0)).is_none());
        assert!(devices.bdev(Device(u32::MAX)).is_none());
        assert_eq!(devices.iterate(|_, _| 1), 0);
    }
}
