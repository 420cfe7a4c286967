// SPDX-License-Identifier: GPL-2.0

//! The callbacks outside the I/O path: status, messages, devices, queue limits, suspend and resume.

use kernel::{
    error::from_result,
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_ulong,
        c_void, //
    },
    num::casts::FromSafeCast,
    prelude::*, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    mm::gfp::noio_scope, //
};

use super::{
    super::{
        args::Args,
        queue_limits::Limits,
        status::StatusBuf,
        Target, //
    },
    Vtable, //
};

impl<T: Target> Vtable<T> {
    /// Writes the status.
    ///
    /// # Safety
    ///
    /// `kscale_target_status()` must call this with its arguments. `kind` is a `status_type_t`.
    pub(super) unsafe extern "C" fn status(
        ti: *mut bindings::dm_target,
        kind: c_uint,
        _flags: c_uint,
        result: *mut c_char,
        maxlen: c_uint,
    ) {
        // SAFETY: Device mapper called `status`, see the contract of this function.
        let inner = unsafe { Self::inner(ti) };
        // SAFETY: Device mapper passes a buffer of its own with room for `maxlen` bytes.
        let buf = unsafe { buffer(result, usize::from_safe_cast(maxlen)) };
        let mut out = StatusBuf::new(buf, inner.devices());

        let written = match kind {
            bindings::status_type_t_STATUSTYPE_INFO => inner.target().status_info(&mut out),
            bindings::status_type_t_STATUSTYPE_TABLE => inner.target().status_table(&mut out),
            bindings::status_type_t_STATUSTYPE_IMA if T::HAS_STATUS_IMA => out
                .write_target(inner.name(), T::VERSION)
                .and_then(|()| inner.target().status_ima(&mut out)),
            _ => Ok(()),
        };
        // This never fails. As with `DMEMIT()`, text that does not fit is truncated.
        let _ = written;
    }

    /// Handles a message.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.message`.
    pub(super) unsafe extern "C" fn message(
        ti: *mut bindings::dm_target,
        argc: c_uint,
        argv: *mut *mut c_char,
        result: *mut c_char,
        maxlen: c_uint,
    ) -> c_int {
        // SAFETY: This is `message`.
        let inner = unsafe { Self::inner(ti) };
        // SAFETY: The arguments belong to this call, and the target cannot keep them.
        let args = unsafe { Args::new(argc, argv) };
        let maxlen = usize::from_safe_cast(maxlen);

        from_result(|| {
            // The arguments are in the memory that `result` points to, see `target_message()` in
            // `drivers/md/dm-ioctl.c`. So the text is written to another buffer while they are in
            // use.
            noio_scope(|| {
                let mut out = StatusBuf::for_size(maxlen, inner.devices());
                inner.target().message(args, &mut out)?;
                if out.as_bytes().is_empty() {
                    return Ok(0);
                }
                // SAFETY: Device mapper passes a buffer with room for `maxlen` bytes, and `message`
                // consumed the arguments.
                let result = unsafe { buffer(result, maxlen) };
                // There is room for the NUL.
                let text = out.as_bytes();
                for (index, to) in result.iter_mut().take(text.len() + 1).enumerate() {
                    *to = text.get(index).copied().unwrap_or(0);
                }
                // 1 means that there is a text.
                Ok(1)
            })
        })
    }

    /// Selects the device of an ioctl. Returns 1 if the caller needs a privilege.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.prepare_ioctl`.
    pub(super) unsafe extern "C" fn prepare_ioctl(
        ti: *mut bindings::dm_target,
        bdev: *mut *mut bindings::block_device,
        _cmd: c_uint,
        _arg: c_ulong,
        _forward: *mut bool,
    ) -> c_int {
        // SAFETY: This is `prepare_ioctl`.
        let inner = unsafe { Self::inner(ti) };
        let device = inner.target().prepare_ioctl();
        let devices = inner.devices();
        let (Some(found), Some(start_sectors)) =
            (devices.bdev(device), devices.start_sectors(device))
        else {
            return ENOTTY.to_errno();
        };

        // SAFETY: The target is alive during this call.
        let len_sectors = unsafe { (*ti).len };
        // SAFETY: The device is open while the target lives.
        let is_whole =
            start_sectors == 0 && len_sectors == unsafe { bindings::bdev_nr_sectors(found) };
        // SAFETY: The caller passes a pointer to a variable of its own. It uses the device before
        // it puts the table (`dm_unprepare_ioctl()` in `drivers/md/dm.c`).
        unsafe { *bdev = found };
        (!is_whole).into()
    }

    /// Iterates over the devices.
    ///
    /// # Safety
    ///
    /// `kscale_target_iterate_devices()` must call this with its arguments.
    pub(super) unsafe extern "C" fn iterate_devices(
        ti: *mut bindings::dm_target,
        callout: *const bindings::kscale_callout,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: The caller passes a pointer to a variable of its own.
        let Some(func) = (unsafe { (*callout).func }) else {
            return 0;
        };
        // SAFETY: Device mapper called `iterate_devices`, see the contract of this function.
        let inner = unsafe { Self::inner(ti) };

        inner.devices().iterate(|dev, start_sectors, len_sectors| {
            // SAFETY: `dev` is a device of `ti`, and device mapper passes `data` for `func`.
            unsafe { func(ti, dev, start_sectors, len_sectors, data) }
        })
    }

    /// Reports the zones.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.report_zones`.
    #[cfg(CONFIG_BLK_DEV_ZONED)]
    pub(super) unsafe extern "C" fn report_zones(
        ti: *mut bindings::dm_target,
        args: *mut bindings::dm_report_zones_args,
        nr_zones: c_uint,
    ) -> c_int {
        // SAFETY: This is `report_zones`.
        let inner = unsafe { Self::inner(ti) };
        let device = inner.target().zones();
        let devices = inner.devices();
        let (Some(bdev), Some(start)) = (devices.bdev(device), devices.start_sectors(device))
        else {
            return ENODEV.to_errno();
        };

        // SAFETY: The arguments belong to the caller, `dm_blk_do_report_zones()`.
        let next_sector = unsafe { (*args).next_sector };
        // OVERFLOW: Device mapper requests zones of the target only, and has checked that `start`
        // is on the device, see `iterate_devices()`. There are no zones beyond the end of the
        // device, see `blkdev_do_report_zones()` in `block/blk-zoned.c`.
        let sector = inner.target_sector(next_sector).wrapping_add(start);
        // SAFETY: The device is open while the target lives, and `args` are as above.
        let result = unsafe { bindings::dm_report_zones(bdev, start, sector, args, nr_zones) };
        // SAFETY: As above.
        let has_ended = unsafe { (*args).next_sector } == next_sector;
        // `dm_blk_do_report_zones()` in `drivers/md/dm-zone.c` repeats the call until it has all
        // zones of the line. The device has no more if its area is shorter.
        if result >= 0 && has_ended {
            return EIO.to_errno();
        }
        result
    }

    /// Adjusts the queue limits.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.io_hints`.
    pub(super) unsafe extern "C" fn io_hints(
        ti: *mut bindings::dm_target,
        limits: *mut bindings::queue_limits,
    ) {
        let Some(limits) = NonNull::new(limits) else {
            return;
        };
        // SAFETY: The caller, `dm_calculate_queue_limits()`, passes limits that this callback may
        // change.
        let mut limits = unsafe { Limits::new(limits) };

        // Polling would access bios that the target owns, and their last queue, which
        // `Bio::submit()` may have changed.
        limits.disable_polling();
        if T::HAS_IO_HINTS {
            // SAFETY: This is `io_hints`.
            unsafe { Self::target(ti) }.io_hints(&mut limits);
        }
    }

    /// See [`Target::presuspend()`].
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.presuspend`.
    pub(super) unsafe extern "C" fn presuspend(ti: *mut bindings::dm_target) {
        // SAFETY: This is `presuspend`.
        unsafe { Self::target(ti) }.presuspend();
    }

    /// See [`Target::presuspend_undo()`].
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.presuspend_undo`.
    pub(super) unsafe extern "C" fn presuspend_undo(ti: *mut bindings::dm_target) {
        // SAFETY: This is `presuspend_undo`.
        unsafe { Self::target(ti) }.presuspend_undo();
    }

    /// See [`Target::postsuspend()`].
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.postsuspend`.
    pub(super) unsafe extern "C" fn postsuspend(ti: *mut bindings::dm_target) {
        // SAFETY: This is `postsuspend`.
        unsafe { Self::target(ti) }.postsuspend();
    }

    /// See [`Target::preresume()`].
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.preresume`.
    pub(super) unsafe extern "C" fn preresume(ti: *mut bindings::dm_target) -> c_int {
        from_result(|| {
            // SAFETY: This is `preresume`.
            unsafe { Self::target(ti) }.preresume()?;
            Ok(0)
        })
    }

    /// See [`Target::resume()`].
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.resume`.
    pub(super) unsafe extern "C" fn resume(ti: *mut bindings::dm_target) {
        // SAFETY: This is `resume`.
        unsafe { Self::target(ti) }.resume();
    }
}

/// Returns the text buffer of device mapper as a slice.
///
/// # Safety
///
/// `result` must be NULL, or valid for reads and writes of `maxlen` bytes for `'a`, and not shared.
unsafe fn buffer<'a>(result: *mut c_char, maxlen: usize) -> &'a mut [u8] {
    if result.is_null() {
        return &mut [];
    }
    // SAFETY: By this function's contract.
    unsafe { core::slice::from_raw_parts_mut(result.cast(), maxlen) }
}
