// SPDX-License-Identifier: GPL-2.0

//! Table lines.

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::bindings;

use super::{
    devices::{
        DeviceIndex,
        Devices, //
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
    _target: PhantomData<&'a mut bindings::dm_target>,
}

impl TargetBuilder<'_> {
    /// Wraps the target whose `ctr` is running.
    ///
    /// # Safety
    ///
    /// The caller must be `ctr` of `ti`, and must put the devices that are opened.
    pub(super) unsafe fn new(ti: *mut bindings::dm_target) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            ti,
            devices: Devices::new(),
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

    /// Returns the name that the target is registered under.
    pub(in crate::block::dm) fn target_name(&self) -> &'static CStr {
        // SAFETY: `ti` and its type are alive by the type invariants. `target_type()` in
        // `vtable.rs` made the type, so its name is a static C string.
        unsafe { CStr::from_char_ptr((*(*self.ti).type_).name) }
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
    /// Device mapper refuses the table if the device is shorter than that, and stacks the limits of
    /// the device (`iterate_devices`). The device is closed after the target is dropped.
    ///
    /// Fails with the error of opening the device, for example with [`ENODEV`].
    ///
    /// Context: Process context. May sleep. C: `dm_get_device()` in `drivers/md/dm-table.c`.
    pub fn get_device(&mut self, path: &CStr, start_sectors: u64) -> Result<DeviceIndex> {
        // SAFETY: `ti` is a target whose `ctr` is running, by the type invariants.
        unsafe { self.devices.open(self.ti, path, start_sectors) }
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

    /// Requests flush bios: bios for which [`MapBio::is_flush()`] is true.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`MapBio::is_flush()`]: crate::block::dm::MapBio::is_flush
    pub fn send_flush_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_flush_bios = 1 };
    }

    /// Requests discard bios, if the devices below support discard.
    ///
    /// Context: Any context. Never sleeps.
    pub fn send_discard_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_discard_bios = 1 };
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
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_ctr)]
mod tests {
    use super::*;

    /// The requests of a line, in the order of the methods.
    #[derive(Debug, PartialEq, Eq)]
    struct Requests {
        emulate_zone_append: bool,
        flush_bios: u32,
        discard_bios: u32,
        limit_swap_bios: bool,
    }

    /// Returns the requests of a line after a call of `method`.
    fn requests(method: impl FnOnce(&mut TargetBuilder<'_>)) -> Result<Requests> {
        let mut ti = KBox::new(bindings::dm_target::default(), GFP_KERNEL)?;
        // SAFETY: The methods only write fields of the target, which no device mapper uses.
        method(&mut unsafe { TargetBuilder::new(&raw mut *ti) });
        Ok(Requests {
            emulate_zone_append: ti.emulate_zone_append(),
            flush_bios: ti.num_flush_bios,
            discard_bios: ti.num_discard_bios,
            limit_swap_bios: ti.limit_swap_bios(),
        })
    }

    #[test]
    fn each_method_makes_one_request() -> Result {
        let nothing = || Requests {
            emulate_zone_append: false,
            flush_bios: 0,
            discard_bios: 0,
            limit_swap_bios: false,
        };

        assert_eq!(requests(|_| ())?, nothing());
        assert_eq!(
            requests(|line| line.emulate_zone_append())?,
            Requests {
                emulate_zone_append: true,
                ..nothing()
            }
        );
        assert_eq!(
            requests(|line| line.send_flush_bios())?,
            Requests {
                flush_bios: 1,
                ..nothing()
            }
        );
        assert_eq!(
            requests(|line| line.send_discard_bios())?,
            Requests {
                discard_bios: 1,
                ..nothing()
            }
        );
        assert_eq!(
            requests(|line| line.limit_swap_bios())?,
            Requests {
                limit_swap_bios: true,
                ..nothing()
            }
        );
        Ok(())
    }
}
