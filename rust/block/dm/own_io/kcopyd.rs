// SPDX-License-Identifier: GPL-2.0

//! Copies between the devices of a target.
//!
//! C header: [`include/linux/dm-kcopyd.h`](srctree/include/linux/dm-kcopyd.h)

use kernel::{
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::Arc, //
};

use core::ptr;

use pin_init::stack_pin_init;

use crate::bindings;

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

/// The most destinations of a copy.
const MAX_DESTINATIONS: usize = bindings::DM_KCOPYD_MAX_REGIONS as usize;

/// A handle that copies areas of the devices of a target, in a thread of the kernel.
///
/// The client reserves the memory for copies, so a copy succeeds under memory pressure.
///
/// A target keeps the handle of [`TargetBuilder::kcopyd_client()`]. The handle may outlive the
/// target: its functions fail with [`ENODEV`] then.
///
/// Except for [`copy_async()`](Self::copy_async), the functions wait for the end of the copy. All
/// fail
///
/// - with [`EDEADLK`] in `map`, in an interrupt, with interrupts disabled, and in the worker of the
///   client;
/// - with [`ENODEV`] if a device belongs to another target, or the target of the handle is gone;
/// - with [`EINVAL`] if a region is not on its device or has parts of blocks, or if there is no
///   destination or more than 8;
/// - with [`EROFS`] if the table is read-only;
/// - with [`EOPNOTSUPP`] if a destination is zoned.
///
/// [`TargetBuilder::kcopyd_client()`]: crate::block::dm::TargetBuilder::kcopyd_client
#[derive(Clone)]
pub struct KcopydClient(Arc<Shared<bindings::dm_kcopyd_client>>);

/// The error of a copy. Parts of the destinations may be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The copy was refused with this error. The destinations are as before.
    Refused(Error),
    /// The source cannot be read.
    Read,
    /// Destinations cannot be written: bit `i` stands for destination `i`.
    Write(u8),
}

impl From<CopyError> for Error {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Refused(error) => error,
            CopyError::Read | CopyError::Write(_) => EIO,
        }
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl KcopydClient {
    /// Returns a handle of a client.
    pub(in crate::block::dm) fn new(owner: &Owner<bindings::dm_kcopyd_client>) -> Self {
        Self(owner.shared())
    }

    /// Copies a region to each of `destinations`.
    ///
    /// If regions overlap, the data of the destinations are undefined.
    ///
    /// Fails with the errors of [`KcopydClient`], and with [`EINVAL`] if a destination has another
    /// length than `source`.
    ///
    /// Context: Process context. May sleep. C: `dm_kcopyd_copy()` in `drivers/md/dm-kcopyd.c`.
    pub fn copy(&self, source: Region, destinations: &[Region]) -> Result<(), CopyError> {
        let in_flight = self.0.enter()?;
        let mut from = in_flight.region(source, false)?;
        let (mut to, count) = regions(&in_flight, destinations, source.n_sectors)?;

        // SAFETY: The regions are from `in_flight` and have the same length.
        unsafe { run(&in_flight, &mut from, &mut to, count) }
    }

    /// Copies a region to each of `destinations`, and calls `done` with the result.
    ///
    /// `done` is called once: after the copy, by a worker of the client, or by this function if
    /// that fails, with the errors of [`copy()`](Self::copy). It fails with [`EINVAL`], too, if
    /// `done` is not code of the module of the target, and with [`ENOMEM`]. The target is not freed
    /// before `done` has returned.
    ///
    /// In the worker, all functions of the client fail with [`EDEADLK`]: the worker would wait for
    /// itself.
    ///
    /// Context: Process context. May sleep. `done` runs in process context, and delays the other
    /// copies of the client. C: `dm_kcopyd_copy()` in `drivers/md/dm-kcopyd.c`.
    pub fn copy_async(
        &self,
        source: Region,
        destinations: &[Region],
        done: impl FnOnce(Result<(), CopyError>) + Send + 'static,
    ) {
        let prepared = self.0.enter().and_then(|in_flight| {
            let from = in_flight.region(source, false)?;
            let to = regions(&in_flight, destinations, source.n_sectors)?;
            Ok((in_flight, from, to))
        });
        let (in_flight, mut from, (mut to, count)) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return done(Err(error.into())),
        };
        let func = move |errors: Result<call::Results>| {
            done(errors.map_err(CopyError::from).and_then(|errors| {
                let (read_errors, write_errors) = errors;
                result_of(read_errors != 0, write_errors)
            }))
        };
        let Some(context) = call::begin(&in_flight, &self.0, func) else {
            return;
        };
        // SAFETY: As in `run()`, but the I/O is in flight until `notify_async()` has ended the
        // call. C uses the client after that, for which `in_flight` keeps it.
        unsafe {
            bindings::dm_kcopyd_copy(
                in_flight.client(),
                &mut from,
                count,
                to.as_mut_ptr(),
                0,
                Some(notify_async),
                context,
            )
        };
    }

    /// Writes zeroes to each of `destinations`.
    ///
    /// Devices that can write zeroes without data do so, if all of `destinations` can.
    ///
    /// Fails with the errors of [`KcopydClient`], and with [`EINVAL`] if the destinations have
    /// different lengths.
    ///
    /// Context: Process context. May sleep. C: `dm_kcopyd_zero()` in `drivers/md/dm-kcopyd.c`.
    pub fn zero(&self, destinations: &[Region]) -> Result<(), CopyError> {
        let in_flight = self.0.enter()?;
        let n_sectors = destinations.first().ok_or(EINVAL)?.n_sectors;
        let (mut to, count) = regions(&in_flight, destinations, n_sectors)?;

        // SAFETY: The regions are from `in_flight` and have the same length.
        unsafe { run(&in_flight, ptr::null_mut(), &mut to, count) }
    }
}

/// The regions of a copy in C.
type Regions = [bindings::dm_io_region; MAX_DESTINATIONS];

/// Returns the destinations of a copy, and their number, from 1 on.
///
/// Fails with [`EINVAL`] if there are none or too many, or if one has not `n_sectors`.
fn regions(
    in_flight: &InFlight<'_, bindings::dm_kcopyd_client>,
    destinations: &[Region],
    n_sectors: u64,
) -> Result<(Regions, u32)> {
    check_destinations(destinations, n_sectors)?;
    let mut regions: Regions = pin_init::zeroed();
    for (to, from) in regions.iter_mut().zip(destinations) {
        *to = in_flight.region(*from, true)?;
    }
    Ok((regions, u32::try_from(destinations.len())?))
}

/// Fails with [`EINVAL`] if there are no or too many destinations, or if one has not `n_sectors`.
fn check_destinations(destinations: &[Region], n_sectors: u64) -> Result {
    let have_len = destinations.iter().all(|to| to.n_sectors == n_sectors);
    if destinations.is_empty() || destinations.len() > MAX_DESTINATIONS || !have_len {
        return Err(EINVAL);
    }
    Ok(())
}

/// Copies `from` to the first `count` of `to`, or zeroes if `from` is NULL.
///
/// # Safety
///
/// The regions must be from `in_flight`, have the same length, and be at least one. `count` must be
/// at most [`MAX_DESTINATIONS`].
unsafe fn run(
    in_flight: &InFlight<'_, bindings::dm_kcopyd_client>,
    from: *mut bindings::dm_io_region,
    to: &mut Regions,
    count: u32,
) -> Result<(), CopyError> {
    stack_pin_init!(let waiter = Waiter::new());

    // SAFETY:
    // - The client is not destroyed, and the devices are open, while `in_flight` lives, which is
    //   longer than the copy: this function waits for it.
    // - C copies the regions before it returns. They are correct by this function's contract.
    // - `notify()` gets its waiter, which lives until then.
    unsafe {
        bindings::dm_kcopyd_copy(
            in_flight.client(),
            from,
            count,
            to.as_mut_ptr(),
            0,
            Some(notify),
            waiter.context(),
        )
    };
    let (read_errors, write_errors) = waiter.wait();
    result_of(read_errors != 0, write_errors)
}

/// Returns the result of a copy. `write_errors` has a bit for each destination that failed.
fn result_of(has_read_error: bool, write_errors: usize) -> Result<(), CopyError> {
    match write_errors {
        _ if has_read_error => Err(CopyError::Read),
        0 => Ok(()),
        // CAST: There are at most 8 destinations. All bits are set if C has not sent the I/O.
        errors => Err(CopyError::Write(errors as u8)),
    }
}

/// Wakes the waiter of a copy.
///
/// # Safety
///
/// `dm-kcopyd` must call this once for a `context` of [`run()`].
unsafe extern "C" fn notify(read_error: c_int, write_errors: c_ulong, context: *mut c_void) {
    // SAFETY: By this function's contract.
    unsafe { Waiter::wake(context, (usize::from(read_error != 0), write_errors)) };
}

/// Ends an asynchronous copy.
///
/// # Safety
///
/// `dm-kcopyd` must call this once with the context of [`KcopydClient::copy_async()`].
#[inline(never)]
unsafe extern "C" fn notify_async(read_error: c_int, write_errors: c_ulong, context: *mut c_void) {
    let read_errors = usize::from(read_error != 0);
    // SAFETY: By this function's contract. `dm-kcopyd` calls it from its worker.
    unsafe {
        call::finish::<bindings::dm_kcopyd_client>(context, (read_errors, write_errors), true)
    };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_kcopyd)]
mod tests {
    use super::*;

    use crate::block::dm::target::devices::DeviceIndex;

    #[test]
    fn each_destination_has_its_error() {
        assert_eq!(result_of(false, 0), Ok(()));
        for index in 0..MAX_DESTINATIONS {
            assert_eq!(
                result_of(false, 1 << index),
                Err(CopyError::Write(1 << index))
            );
            assert_eq!(result_of(true, 1 << index), Err(CopyError::Read));
        }
        // C has not sent the I/O.
        assert_eq!(result_of(false, usize::MAX), Err(CopyError::Write(0xff)));
    }

    /// The guest suite `dm` has the cases with devices.
    #[test]
    fn destinations_have_the_length_of_the_source() {
        let of = |n_sectors| Region {
            device: DeviceIndex::none(),
            sector: 0,
            n_sectors,
        };
        // Lengths of the destinations, whether they are accepted for a length of 8.
        let rows: [(&[Region], bool); 6] = [
            (&[], false),
            (&[of(8)], true),
            (&[of(7)], false),
            (&[of(8), of(9)], false),
            (&[of(8); 8], true),
            (&[of(8); 9], false),
        ];
        for (destinations, is_accepted) in rows {
            assert_eq!(check_destinations(destinations, 8).is_ok(), is_accepted);
        }
    }
}
