// SPDX-License-Identifier: GPL-2.0

//! The devices of a target.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    error::to_result,
    fmt,
    fs::File,
    num::casts::FromSafeCast,
    prelude::*,
    sync::aref::ARef, //
};

use crate::{
    bindings,
    block::bio::SECTOR_SIZE,
    lib::unique::unique_id, //
};

/// The largest length of an area.
///
/// `device_area_is_invalid()` in `drivers/md/dm-table.c` adds it to the first sector. This does not
/// overflow if the first sector is on a device: a device has less than 2^55 sectors.
const MAX_AREA_SECTORS: u64 = u64::MAX / 2;

/// Returns whether a number of sectors has whole blocks of `block_bytes`, a power of two. The
/// bitwise OR of several numbers stands for all of them.
///
/// Drivers without a request queue do not check this. `zram_write_page()` in
/// `drivers/block/zram/zram_drv.c` stores a whole page, so also what the memory after a part of a
/// block contains.
pub(in crate::block::dm) fn has_whole_blocks(sectors: u64, block_bytes: u32) -> bool {
    let mask = u64::from(block_bytes / SECTOR_SIZE).wrapping_sub(1);
    sectors & mask == 0
}

/// The index of a device of a target. It is valid for this target only.
///
/// # Invariants
///
/// `bdev` is the block device of the device `index` of the [`Devices`] whose `id` is `of`.
#[derive(Clone, Copy)]
pub struct DeviceIndex {
    /// Not valid when the devices are gone.
    bdev: *mut bindings::block_device,
    /// The `id` of its [`Devices`].
    of: u64,
    index: u32,
}

// SAFETY: The pointer is only used after a check that its device is open, see `Devices::bdev()`.
unsafe impl Send for DeviceIndex {}

// SAFETY: As above. All fields are immutable.
unsafe impl Sync for DeviceIndex {}

impl DeviceIndex {
    /// Returns an index that is valid for no target.
    #[cfg(kscale_kunit)]
    pub(in crate::block::dm) fn none() -> Self {
        // INVARIANT: There are no devices with that id.
        Self {
            bdev: core::ptr::null_mut(),
            of: unique_id(),
            index: 0,
        }
    }
}

impl PartialEq for DeviceIndex {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.of) == (other.index, other.of)
    }
}

impl Eq for DeviceIndex {}

// Prints no address.
impl fmt::Debug for DeviceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceIndex").field(&self.index).finish()
    }
}

/// The devices of a target.
///
/// # Invariants
///
/// Each device was opened by `dm_get_device()` for the target, and was not put. Its `bdev` is open,
/// because its file is.
pub(in crate::block::dm) struct Devices {
    list: KVec<OpenDevice>,
    id: DevicesId,
}

/// The id of a [`Devices`]. Ids are unique.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::block::dm) struct DevicesId(u64);

impl DevicesId {
    /// Returns the block device of a device that has this id. It is open while the [`Devices`] are.
    #[inline]
    pub(in crate::block::dm) fn bdev(
        self,
        device: DeviceIndex,
    ) -> Option<*mut bindings::block_device> {
        (device.of == self.0).then_some(device.bdev)
    }

    /// Returns the id of no devices.
    #[cfg(kscale_kunit)]
    pub(in crate::block::dm) fn none() -> Self {
        Self(unique_id())
    }
}

/// An open device: a copy of the fields of its `dm_dev`.
///
/// Device mapper replaces the `dm_dev` when a C target of the same table opens the device with more
/// rights: see `upgrade_mode()` in `drivers/md/dm-table.c`. It opens the device number again, which
/// may be another device by then, and closes the file of the replaced `dm_dev`.
struct OpenDevice {
    bdev: *mut bindings::block_device,
    /// The open file of `bdev`. The device stays open after device mapper has put the file.
    file: Option<ARef<File>>,
    mode: bindings::blk_mode_t,
    /// The device number as `major:minor`, NUL-terminated.
    name: [kernel::ffi::c_char; 16],
    /// The first sector of the area in use.
    start_sectors: u64,
    /// The length of the area in use, at most [`MAX_AREA_SECTORS`].
    len_sectors: u64,
}

// SAFETY: Another task than the opener may put the devices: `dtr` may run on any task.
unsafe impl Send for Devices {}

// SAFETY: `&Devices` only reads immutable fields. Users of the block device pointers are
// responsible for their accesses.
unsafe impl Sync for Devices {}

impl Devices {
    pub(super) fn new() -> Self {
        // INVARIANT: Holds vacuously.
        Self {
            list: KVec::new(),
            id: DevicesId(unique_id()),
        }
    }

    /// Opens a device for a target, which uses `len_sectors` sectors from `start_sectors` on.
    ///
    /// # Safety
    ///
    /// `ti` must be the target of these devices, and the caller its `ctr`.
    pub(super) unsafe fn open(
        &mut self,
        ti: *mut bindings::dm_target,
        path: &CStr,
        start_sectors: u64,
        len_sectors: u64,
    ) -> Result<DeviceIndex> {
        self.reserve()?;

        // SAFETY: `ti` is alive by this function's contract, and its table is set, see
        // `dm_table_add_target()` in `drivers/md/dm-table.c`.
        let mode = unsafe { bindings::dm_table_get_mode((*ti).table) };
        let mut dev = core::ptr::null_mut();
        // SAFETY:
        // - `ti` is a target whose `ctr` is running, by this function's contract.
        // - `path` is NUL-terminated, and `dev` can be written to.
        to_result(unsafe { bindings::dm_get_device(ti, path.as_char_ptr(), mode, &mut dev) })?;
        // The vector has room, so this does not fail.
        //
        // SAFETY: The device was just opened for `ti`.
        unsafe { self.push(&*dev, start_sectors, len_sectors) }
    }

    /// Makes room for a device. A target may open so many that the list would take more than 4 MiB:
    /// an allocation that fails, and of which the kernel warns unless it has `__GFP_NOWARN`.
    fn reserve(&mut self) -> Result {
        Ok(self.list.reserve(1, GFP_KERNEL | __GFP_NOWARN)?)
    }

    /// Adds a device with an area in use. The area is cut to [`MAX_AREA_SECTORS`], which is longer
    /// than every device.
    ///
    /// # Safety
    ///
    /// `dev` must have been opened for the target. It may have no block device and no file if the
    /// devices are not used.
    pub(super) unsafe fn push(
        &mut self,
        dev: &bindings::dm_dev,
        start_sectors: u64,
        len_sectors: u64,
    ) -> Result<DeviceIndex> {
        let index = u32::try_from(self.list.len()).map_err(|_| EINVAL)?;
        let file = (!dev.bdev_file.is_null()).then(|| {
            // SAFETY: The file is open, as device mapper has just opened the device. It has no file
            // descriptor, so there is no `fdget_pos()`.
            ARef::from(unsafe { File::from_raw_file(dev.bdev_file) })
        });
        let open = OpenDevice {
            bdev: dev.bdev,
            file,
            mode: dev.mode,
            name: dev.name,
            start_sectors,
            len_sectors: len_sectors.min(MAX_AREA_SECTORS),
        };
        // INVARIANT: By this function's contract.
        self.list.push(open, GFP_KERNEL)?;
        // INVARIANT: The device was just added at the end. Ids are not reused.
        Ok(DeviceIndex {
            bdev: dev.bdev,
            of: self.id.0,
            index,
        })
    }

    #[inline]
    fn get(&self, device: DeviceIndex) -> Option<&OpenDevice> {
        if device.of != self.id.0 {
            return None;
        }
        self.list.get(usize::from_safe_cast(device.index))
    }

    /// Returns the block device. It stays open until `close_all()`.
    #[inline]
    pub(in crate::block::dm) fn bdev(
        &self,
        device: DeviceIndex,
    ) -> Option<*mut bindings::block_device> {
        // By the type invariants of both: the device is in the list, so it is open.
        self.id.bdev(device)
    }

    /// Returns the first index of a block device.
    pub(super) fn index_of(&self, bdev: *mut bindings::block_device) -> Option<DeviceIndex> {
        let index = self.list.iter().position(|open| open.bdev == bdev)?;
        // INVARIANT: The device at this index has this block device.
        Some(DeviceIndex {
            bdev,
            of: self.id.0,
            index: u32::try_from(index).ok()?,
        })
    }

    /// Returns the id. The devices with this id are those of `self`, open until `close_all()`.
    pub(super) fn id(&self) -> DevicesId {
        self.id
    }

    /// Returns the sector of the device that the target begins at.
    pub(super) fn start_sectors(&self, device: DeviceIndex) -> Option<u64> {
        Some(self.get(device)?.start_sectors)
    }

    /// Returns the device number as `major:minor`.
    pub(in crate::block::dm) fn name(&self, device: DeviceIndex) -> Option<&str> {
        self.get(device)?.name().to_str().ok()
    }

    /// Returns whether one of the devices is zoned.
    pub(super) fn any_is_zoned(&self) -> bool {
        // SAFETY: The devices are open, by the type invariants.
        let is_zoned = |open: &OpenDevice| unsafe { bindings::bdev_is_zoned(open.bdev) };
        self.list.iter().any(is_zoned)
    }

    /// Returns whether `len_sectors` has no part of a logical block of a device.
    pub(super) fn have_whole_blocks(&self, len_sectors: u32) -> bool {
        self.list.iter().all(|open| {
            // SAFETY: The devices are open, by the type invariants.
            let block_bytes = unsafe { bindings::bdev_logical_block_size(open.bdev) };
            has_whole_blocks(len_sectors.into(), block_bytes)
        })
    }

    /// Calls `func` with each device, and the first sector and the length of its area, until `func`
    /// returns a value other than 0.
    pub(super) fn iterate(
        &self,
        mut func: impl FnMut(*mut bindings::dm_dev, u64, u64) -> kernel::ffi::c_int,
    ) -> kernel::ffi::c_int {
        self.list
            .iter()
            .map(|open| func(&mut open.dm_dev(), open.start_sectors, open.len_sectors))
            .find(|&result| result != 0)
            .unwrap_or(0)
    }

    /// Closes the devices.
    ///
    /// # Safety
    ///
    /// `ti` must be the target that the devices were opened for, and the caller its `ctr` or `dtr`.
    pub(super) unsafe fn close_all(self, ti: *mut bindings::dm_target) {
        for mut open in self.list {
            // Unless device mapper has replaced the `dm_dev`, it has the last reference to the file
            // now, and closes the device at once. The last `fput()` would close it at the end of
            // the system call, which may remove the device below, too.
            open.file = None;
            // `dm_put_device()` needs the current `dm_dev`. Another `dm_get_device()` returns it.
            let mut dev = core::ptr::null_mut();
            // SAFETY: `ti` is alive, and so is its table.
            let mode = unsafe { bindings::dm_table_get_mode((*ti).table) };
            // SAFETY: `dm_get_device()` may be called here, by this function's contract, with a
            // name and a pointer to write to. It opens nothing, as the table already has the device
            // with this mode.
            let error =
                unsafe { bindings::dm_get_device(ti, open.name().as_char_ptr(), mode, &mut dev) };
            if error != 0 {
                // Not reached: nothing is opened, so nothing can fail.
                continue;
            }
            for _ in 0..2 {
                // SAFETY: The device was opened for `ti` just now and, by the type invariants, once
                // before. Neither reference was put. `dm_put_device()` may be called here as above.
                unsafe { bindings::dm_put_device(ti, dev) };
            }
        }
    }
}

impl OpenDevice {
    /// Returns the device number as `major:minor`.
    fn name(&self) -> &CStr {
        // SAFETY: The name is NUL-terminated, see `format_dev_t()` in `include/linux/kdev_t.h`.
        unsafe { CStr::from_char_ptr(self.name.as_ptr()) }
    }

    /// Returns a `dm_dev` that is valid as an argument while the device is open. It has no DAX
    /// device.
    fn dm_dev(&self) -> bindings::dm_dev {
        bindings::dm_dev {
            bdev: self.bdev,
            mode: self.mode,
            name: self.name,
            ..pin_init::zeroed()
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_devices)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole() {
        // First sector, length, bytes of a block, whether the blocks are whole.
        for (sector, n_sectors, block_bytes, are_whole) in [
            (0, 1, 512, true),
            (7, 3, 512, true),
            (8, 16, 4096, true),
            (8, 0, 4096, true),
            (8, 7, 4096, false),
            (7, 8, 4096, false),
            (7, 0, 4096, false),
            (8, 8, 65536, false),
            (128, 256, 65536, true),
        ] {
            assert_eq!(has_whole_blocks(sector | n_sectors, block_bytes), are_whole);
        }
    }

    /// Returns a value with a device that does not exist.
    fn devices() -> Result<(Devices, DeviceIndex)> {
        let mut devices = Devices::new();
        // SAFETY: The device is never used, as `close_all()` is not called.
        let device = unsafe { devices.push(&pin_init::zeroed(), 2048, 64) }?;
        Ok((devices, device))
    }

    #[test]
    fn device_id_of_another_target_is_not_found() -> Result {
        let (devices, own) = devices()?;
        let (_others, other) = self::devices()?;

        assert!(devices.bdev(own).is_some());
        assert!(devices.bdev(other).is_none());
        assert!(devices.name(other).is_none());
        assert!(Devices::new().bdev(own).is_none());
        assert!(own != other);
        Ok(())
    }

    #[test]
    fn iterate_stops_at_the_first_nonzero_result() -> Result {
        let (mut devices, _) = devices()?;
        // SAFETY: As in `devices()`.
        unsafe { devices.push(&pin_init::zeroed(), 4096, 32) }?;
        let mut seen = KVec::new();

        assert_eq!(devices.iterate(|_, start, _| (start == 2048).into()), 1);
        assert_eq!(Devices::new().iterate(|_, _, _| 1), 0);
        devices.iterate(|_, start, len| seen.push((start, len), GFP_KERNEL).map_or(-1, |()| 0));
        assert_eq!(&seen[..], [(2048, 64), (4096, 32)]);
        Ok(())
    }

    /// The kernel must not warn.
    #[test]
    fn too_many_devices_are_refused() {
        let mut devices = Devices::new();
        let mut add = || -> Result {
            devices.reserve()?;
            // SAFETY: As in `devices()`.
            unsafe { devices.push(&pin_init::zeroed(), 0, 1) }?;
            Ok(())
        };

        assert_eq!((0..=1 << 20).find_map(|_| add().err()), Some(ENOMEM));
    }

    /// Device mapper adds both numbers, and must not get a sector on the device.
    #[test]
    fn end_of_an_area_does_not_wrap() -> Result {
        let last = (1 << 55) - 1;
        for (start, len) in [
            (0, u64::MAX),
            (8, u64::MAX),
            (last, u64::MAX - 8),
            (last, 8),
        ] {
            let mut devices = Devices::new();
            // SAFETY: As in `devices()`.
            unsafe { devices.push(&pin_init::zeroed(), start, len) }?;
            let ends = devices.iterate(|_, at, len| at.checked_add(len).is_some().into());
            assert_eq!(ends, 1);
        }
        Ok(())
    }
}
