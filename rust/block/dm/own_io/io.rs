// SPDX-License-Identifier: GPL-2.0

//! Reads and writes of a target to its devices.
//!
//! C header: [`include/linux/dm-io.h`](srctree/include/linux/dm-io.h)

use kernel::{
    ffi::{
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::Arc, //
};

use core::ptr;

use pin_init::stack_pin_init;

use crate::{
    bindings,
    block::{
        bio::SECTOR_SIZE,
        dm::bio::owned::may_submit, //
    },
    mm::page::FilledPage, //
};

use super::{
    call,
    client::{
        InFlight,
        Owner,
        Region,
        Shared, //
    },
    waiter::Waiter, //
};

/// The most sectors of an operation: the length of a bio in bytes has 32 bits.
const MAX_SECTORS: u64 = (u32::MAX / SECTOR_SIZE) as u64;

/// A handle for I/O of a target to its devices, for example for its metadata.
///
/// A target keeps the handle of [`TargetBuilder::io_client()`]. The handle may outlive the target:
/// its functions fail with [`ENODEV`] then.
///
/// Except for [`read_async()`](Self::read_async) and [`write_async()`](Self::write_async), all
/// functions wait until the device has completed the operation. All fail
///
/// - with [`EDEADLK`] in `map`, in an interrupt and with interrupts disabled;
/// - with [`ENODEV`] if the device belongs to another target, or the target of the handle is gone;
/// - with [`EINVAL`] if the region is not on the device, has parts of blocks, or is longer than
///   4 GiB;
/// - with [`EROFS`] if they change data and the table is read-only;
/// - with [`EOPNOTSUPP`] if they write to a zoned device, or the device does not support the
///   operation;
/// - with [`EIO`] if the device fails.
///
/// [`TargetBuilder::io_client()`]: crate::block::dm::TargetBuilder::io_client
#[derive(Clone)]
pub struct IoClient(Arc<Shared<bindings::dm_io_client>>);

impl IoClient {
    /// Returns a handle of a client.
    pub(in crate::block::dm) fn new(owner: &Owner<bindings::dm_io_client>) -> Self {
        Self(owner.shared())
    }

    /// Reads a region into the first bytes of `page`.
    ///
    /// Fails with [`EINVAL`] if the region is longer than `page`, and with the errors of
    /// [`IoClient`]. Parts of `page` may be overwritten even on failure.
    ///
    /// Context: Process context. May sleep. C: `dm_io()` in `drivers/md/dm-io.c`.
    pub fn read<const ORDER: u32>(&self, region: Region, page: &mut FilledPage<ORDER>) -> Result {
        let bytes = page.as_mut_slice();
        check_len(region, bytes.len())?;
        // SAFETY: The bytes are those of a page, as many as the region has, and `self.submit()`
        // returns after the last access to them.
        unsafe { self.submit(region, bindings::req_op_REQ_OP_READ, bytes.as_mut_ptr()) }
    }

    /// Writes the first bytes of `page` to a region.
    ///
    /// Fails with [`EINVAL`] if the region is longer than `page`, and with the errors of
    /// [`IoClient`].
    ///
    /// Context: Process context. May sleep. C: `dm_io()` in `drivers/md/dm-io.c`.
    pub fn write<const ORDER: u32>(&self, region: Region, page: &FilledPage<ORDER>) -> Result {
        let bytes = page.as_slice();
        check_len(region, bytes.len())?;
        let start = bytes.as_ptr().cast_mut();
        // SAFETY: As in `read()`. The device does not change the bytes of a write.
        unsafe { self.submit(region, bindings::req_op_REQ_OP_WRITE, start) }
    }

    /// Flushes the cache of the device of a region. The sectors of the region have no meaning.
    ///
    /// Fails with the errors of [`IoClient`].
    ///
    /// Context: Process context. May sleep. C: `mirror_flush()` in `drivers/md/dm-raid1.c`.
    pub fn flush(&self, region: Region) -> Result {
        let region = Region {
            sector: 0,
            n_sectors: 0,
            ..region
        };
        let opf = bindings::req_op_REQ_OP_WRITE | bindings::REQ_PREFLUSH;
        // SAFETY: The region is empty.
        unsafe { self.submit(region, opf, ptr::null_mut()) }
    }

    /// Discards a region.
    ///
    /// Fails with the errors of [`IoClient`].
    ///
    /// Context: Process context. May sleep. C: `dm_io()` in `drivers/md/dm-io.c`.
    pub fn discard(&self, region: Region) -> Result {
        // SAFETY: The operation has no memory.
        unsafe { self.submit(region, bindings::req_op_REQ_OP_DISCARD, ptr::null_mut()) }
    }

    /// Writes zeroes to a region without data, for devices that can do that.
    ///
    /// [`KcopydClient::zero()`](crate::block::dm::KcopydClient::zero) writes data to other devices.
    ///
    /// Fails with the errors of [`IoClient`].
    ///
    /// Context: Process context. May sleep. C: `dm_io()` in `drivers/md/dm-io.c`.
    pub fn write_zeroes(&self, region: Region) -> Result {
        // SAFETY: The operation has no memory.
        unsafe {
            self.submit(
                region,
                bindings::req_op_REQ_OP_WRITE_ZEROES,
                ptr::null_mut(),
            )
        }
    }

    /// Reads a region into the first bytes of `page`, and calls `done` with the page and the
    /// result.
    ///
    /// `done` is called once: after the device has completed the read, or by this function if that
    /// fails, with the errors of [`read()`](Self::read). It fails with [`EINVAL`], too, if `done`
    /// is not code of the module of the target, and with [`ENOMEM`]. The target is not freed before
    /// `done` has returned.
    ///
    /// After the operation, `done` runs in softirq context, in an interrupt, or with interrupts
    /// disabled. So it cannot start the next operation: that fails with [`EDEADLK`]. It can queue a
    /// work item that does.
    ///
    /// Context: Process context. May sleep. `done` must not sleep. C: `dm_io()` in
    /// `drivers/md/dm-io.c`.
    pub fn read_async<const ORDER: u32>(
        &self,
        region: Region,
        mut page: FilledPage<ORDER>,
        done: impl FnOnce(FilledPage<ORDER>, Result) + Send + 'static,
    ) {
        let bytes = page.as_mut_slice();
        if let Err(error) = check_len(region, bytes.len()) {
            return done(page, Err(error));
        }
        let (opf, addr) = (bindings::req_op_REQ_OP_READ, bytes.as_mut_ptr());
        // SAFETY: The bytes are those of a page, as many as the region has. The function owns the
        // page.
        unsafe { self.submit_async(region, opf, addr, move |result| done(page, result)) }
    }

    /// Writes the first bytes of `page` to a region, and calls `done` with the page and the result.
    ///
    /// As [`read_async()`](Self::read_async), with the errors of [`write()`](Self::write).
    ///
    /// Context: As [`read_async()`](Self::read_async).
    pub fn write_async<const ORDER: u32>(
        &self,
        region: Region,
        page: FilledPage<ORDER>,
        done: impl FnOnce(FilledPage<ORDER>, Result) + Send + 'static,
    ) {
        let bytes = page.as_slice();
        if let Err(error) = check_len(region, bytes.len()) {
            return done(page, Err(error));
        }
        let (opf, addr) = (bindings::req_op_REQ_OP_WRITE, bytes.as_ptr().cast_mut());
        // SAFETY: As in `read_async()`. The device does not change the bytes of a write.
        unsafe { self.submit_async(region, opf, addr, move |result| done(page, result)) }
    }

    /// Sends a read or a write to a device. `done` is called once.
    ///
    /// # Safety
    ///
    /// As for [`submit()`](Self::submit), but the memory must be valid until `done` is called.
    unsafe fn submit_async(
        &self,
        region: Region,
        opf: bindings::blk_opf_t,
        addr: *mut u8,
        done: impl FnOnce(Result) + Send + 'static,
    ) {
        let prepared = self.0.enter().and_then(|in_flight| {
            let region = request_region(&in_flight, region, opf)?;
            Ok((in_flight, region))
        });
        let (in_flight, mut region) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return done(Err(error)),
        };
        let func = move |bits: Result<_>| done(bits.and_then(result_of));
        let Some(context) = call::begin(&in_flight, &self.0, func) else {
            return;
        };
        let mut request = request(in_flight.client(), opf, addr);
        request.notify = bindings::dm_io_notify {
            fn_: Some(notify),
            context,
        };
        // SAFETY: As in `submit()`: the I/O is in flight until `notify()` has ended the call, which
        // owns the memory. The function fails for several regions and unknown memory only.
        unsafe {
            bindings::dm_io(
                &mut request,
                1,
                &mut region,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
    }

    /// Sends an operation to a device, and waits for it.
    ///
    /// # Safety
    ///
    /// - `opf` must be a read, a write, a discard, a write of zeroes or an empty flush.
    /// - If it is a read or a write, `addr` must be page-aligned memory of the page allocator with
    ///   the length of `region`, valid during the call. For a read, it must be valid for writes.
    unsafe fn submit(&self, region: Region, opf: bindings::blk_opf_t, addr: *mut u8) -> Result {
        let in_flight = self.0.enter()?;
        let mut region = request_region(&in_flight, region, opf)?;
        // As `sync_io()` in `drivers/md/dm-io.c`.
        let mut request = request(in_flight.client(), opf | bindings::REQ_SYNC, addr);

        stack_pin_init!(let waiter = Waiter::new());
        request.notify = bindings::dm_io_notify {
            fn_: Some(notify_waiter),
            context: waiter.context(),
        };
        // SAFETY:
        // - The client is not destroyed, and the device is open, while `in_flight` lives.
        // - There is one region. Its memory is valid by this function's contract: the waiter is
        //   woken after the last access. The function fails for several regions and unknown memory
        //   only.
        // - The task can sleep here, and is not in `map`, see `Shared::enter()`. The caller may
        //   hold locks of its own, see `docs/soundness.md`.
        unsafe {
            bindings::dm_io(
                &mut request,
                1,
                &mut region,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
        result_of(waiter.wait())
    }
}

/// Returns the result of an operation on a region: C sets a bit for an error, and a bit if the
/// device does not support the operation.
fn result_of(bits: call::Results) -> Result {
    match bits {
        (0, 0) => Ok(()),
        (0, _) => Err(EOPNOTSUPP),
        _ => Err(EIO),
    }
}

/// Returns the region of an operation in C. Fails with the errors of [`IoClient`].
fn request_region(
    in_flight: &InFlight<'_, bindings::dm_io_client>,
    region: Region,
    opf: bindings::blk_opf_t,
) -> Result<bindings::dm_io_region> {
    let is_write = opf != bindings::req_op_REQ_OP_READ && opf & bindings::REQ_PREFLUSH == 0;
    if region.n_sectors > MAX_SECTORS {
        return Err(EINVAL);
    }
    in_flight.region(region, is_write)
}

/// Returns a request in C, without a notification.
fn request(
    client: *mut bindings::dm_io_client,
    opf: bindings::blk_opf_t,
    addr: *mut u8,
) -> bindings::dm_io_request {
    bindings::dm_io_request {
        bi_opf: opf,
        mem: bindings::dm_io_memory {
            type_: bindings::dm_io_mem_type_DM_IO_KMEM,
            offset: 0,
            ptr: bindings::dm_io_memory__bindgen_ty_1 { addr: addr.cast() },
        },
        notify: pin_init::zeroed(),
        client,
    }
}

/// Wakes the task that waits for an operation.
///
/// # Safety
///
/// `dm_io()` must call this once with the context of [`IoClient::submit()`].
unsafe extern "C" fn notify_waiter(errors: c_ulong, unsupported: c_ulong, context: *mut c_void) {
    // SAFETY: The waiter lives until it is woken, by this function's contract.
    unsafe { Waiter::wake(context, (errors, unsupported)) };
}

/// Ends an asynchronous operation.
///
/// # Safety
///
/// `dm_io()` must call this once with the context of [`IoClient::submit_async()`].
#[inline(never)]
unsafe extern "C" fn notify(errors: c_ulong, unsupported: c_ulong, context: *mut c_void) {
    let results = (errors, unsupported);
    if may_submit() {
        // The driver, or `dm_io()` itself, has ended the operation in the task that sends it. The
        // function could start an operation that ends in the same way, and so on, until the stack
        // overflows.
        //
        // SAFETY: By this function's contract.
        unsafe { call::finish_later::<bindings::dm_io_client>(context, results, notify_later) };
    } else {
        // SAFETY: By this function's contract.
        unsafe { call::finish::<bindings::dm_io_client>(context, results, false) };
    }
}

/// Ends an asynchronous operation in softirq context.
///
/// # Safety
///
/// The workqueue core must call this for the work item of `call::finish_later()`.
#[inline(never)]
unsafe extern "C" fn notify_later(work: *mut bindings::work_struct) {
    // SAFETY: By this function's contract.
    unsafe { call::finish_queued::<bindings::dm_io_client>(work) };
}

/// Fails with [`EINVAL`] if a region is longer than `len` bytes.
fn check_len(region: Region, len: usize) -> Result {
    match usize::try_from(region.n_sectors) {
        // CAST: 512.
        Ok(n_sectors) if n_sectors <= len / SECTOR_SIZE as usize => Ok(()),
        _ => Err(EINVAL),
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_io_client)]
mod tests {
    use super::*;

    use crate::{
        block::dm::target::devices::DeviceIndex,
        mm::gfp::Gfp, //
    };

    /// The guest suite `dm` has the cases with devices.
    #[test]
    fn region_fits_into_the_page() -> Result {
        let page = FilledPage::<1>::zeroed(Gfp::KERNEL)?;
        let len = page.as_slice().len();
        // CAST: From 32 to 64 bits.
        let most = len as u64 / u64::from(SECTOR_SIZE);

        for (n_sectors, fits) in [
            (0, true),
            (most, true),
            (most + 1, false),
            (u64::MAX, false),
        ] {
            let region = Region {
                device: DeviceIndex::none(),
                sector: 0,
                n_sectors,
            };
            assert_eq!(check_len(region, len).is_ok(), fits);
        }
        Ok(())
    }
}
