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
        Device,
        Devices, //
    },
    target_type::TargetType, //
};

/// The table line that is being constructed.
///
/// # Invariants
///
/// `ti` is a target whose `ctr` is running. `devices` were got for it.
pub struct Table<'a> {
    ti: *mut bindings::dm_target,
    pub(in crate::block::dm) devices: Devices,
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

    /// Returns the name that the target is registered under.
    pub(in crate::block::dm) fn target_name(&self) -> &'static CStr {
        // SAFETY: `ti` is alive by the type invariants, and so is its type, which `target_type()` in
        // `vtable.rs` made, so that its name is a static C string.
        unsafe { CStr::from_char_ptr((*(*self.ti).type_).name) }
    }

    /// Returns the type that the target is of.
    pub(in crate::block::dm) fn target_type(&self) -> NonNull<TargetType> {
        // SAFETY: `ti` is alive by the type invariants, and its type is at the beginning of a
        // `TargetType`, as no other type has a `ctr` that makes a `Table`.
        unsafe { NonNull::new_unchecked((*self.ti).type_.cast()) }
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
        // SAFETY: `ti` is a target whose `ctr` is running, by the type invariants.
        unsafe { self.devices.open(self.ti, path, start_sectors) }
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
    /// [`MapBio::is_flush()`]: crate::block::dm::MapBio::is_flush
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
