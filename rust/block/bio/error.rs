// SPDX-License-Identifier: GPL-2.0

//! The errors of bios.

use core::num::NonZeroU32;

use crate::bindings;

/// The error of a bio, a `blk_status_t` other than `BLK_STS_OK`.
///
/// There is no constant of `BLK_STS_DM_REQUEUE`, which device mapper keeps for itself:
/// [`MapBio::requeue()`] requeues a bio.
///
/// [`MapBio::requeue()`]: crate::block::dm::MapBio::requeue
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlkError(NonZeroU32);

/// The result of a bio.
pub type BlkResult = Result<(), BlkError>;

macro_rules! blk_errors {
    ($($(#[$meta:meta])* $name:ident = $sts:ident,)*) => {
        impl BlkError {
            $(
                $(#[$meta])*
                pub const $name: Self = match NonZeroU32::new(bindings::$sts as u32) {
                    Some(status) => Self(status),
                    None => ::kernel::build_error!(),
                };
            )*
        }
    };
}

blk_errors! {
    /// The operation is not supported, `EOPNOTSUPP`.
    NOTSUPP = BLK_STS_NOTSUPP,
    /// The device did not answer in time, `ETIMEDOUT`.
    TIMEOUT = BLK_STS_TIMEOUT,
    /// The device has no space left, `ENOSPC`.
    NOSPC = BLK_STS_NOSPC,
    /// The link to the device failed, `ENOLINK`. Another path may work.
    TRANSPORT = BLK_STS_TRANSPORT,
    /// The device refuses the request for good, `EREMOTEIO`.
    ///
    /// For a discard or a write of zeroes, device mapper then turns the operation off on the mapped
    /// device, if the device of the bio does not support the operation.
    TARGET = BLK_STS_TARGET,
    /// Another host has reserved the device, `EBADE`.
    RESV_CONFLICT = BLK_STS_RESV_CONFLICT,
    /// The medium is bad, `ENODATA`.
    MEDIUM = BLK_STS_MEDIUM,
    /// Data failed an integrity check, `EILSEQ`.
    PROTECTION = BLK_STS_PROTECTION,
    /// A resource is temporarily unavailable and the caller may retry, `ENOMEM`.
    RESOURCE = BLK_STS_RESOURCE,
    /// The device failed, `EIO`.
    IOERR = BLK_STS_IOERR,
    /// The bio would have to wait, and must not (`REQ_NOWAIT`), `EAGAIN`.
    AGAIN = BLK_STS_AGAIN,
    /// A resource of the device is temporarily unavailable, `EBUSY`.
    DEV_RESOURCE = BLK_STS_DEV_RESOURCE,
    /// Too many zones are open, `ETOOMANYREFS`.
    ZONE_OPEN_RESOURCE = BLK_STS_ZONE_OPEN_RESOURCE,
    /// Too many zones are active, `EOVERFLOW`.
    ZONE_ACTIVE_RESOURCE = BLK_STS_ZONE_ACTIVE_RESOURCE,
    /// The device is offline, `ENODEV`.
    OFFLINE = BLK_STS_OFFLINE,
    /// The request exceeded its duration limit, `ETIME`.
    DURATION_LIMIT = BLK_STS_DURATION_LIMIT,
    /// The request is not valid for the device, for example not aligned, `EINVAL`.
    INVAL = BLK_STS_INVAL,
}

impl BlkError {
    /// Converts a `blk_status_t` to a result.
    pub(crate) fn result_from_raw(status: bindings::blk_status_t) -> BlkResult {
        NonZeroU32::new(u32::from(status)).map_or(Ok(()), |status| Err(Self(status)))
    }

    /// Converts a result to a `blk_status_t`.
    pub(crate) fn result_to_raw(result: BlkResult) -> bindings::blk_status_t {
        match result {
            Ok(()) => 0,
            // CAST: `self.0` came from a `blk_status_t` or from one of its constants, which all
            // fit.
            Err(error) => error.0.get() as bindings::blk_status_t,
        }
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_bio_error)]
mod tests {
    use super::*;

    #[test]
    fn results_round_trip_through_c() {
        for result in [
            Ok(()),
            Err(BlkError::IOERR),
            Err(BlkError::NOTSUPP),
            Err(BlkError::PROTECTION),
            Err(BlkError::RESOURCE),
        ] {
            let raw = BlkError::result_to_raw(result);
            assert!(BlkError::result_from_raw(raw) == result);
            assert!((raw == 0) == result.is_ok());
        }
    }

    /// User space sees these numbers. C: `blk_errors` in `block/blk-core.c`.
    #[test]
    fn each_error_has_its_errno() {
        for (error, errno) in [
            (BlkError::NOTSUPP, bindings::EOPNOTSUPP),
            (BlkError::TIMEOUT, bindings::ETIMEDOUT),
            (BlkError::NOSPC, bindings::ENOSPC),
            (BlkError::TRANSPORT, bindings::ENOLINK),
            (BlkError::TARGET, bindings::EREMOTEIO),
            (BlkError::RESV_CONFLICT, bindings::EBADE),
            (BlkError::MEDIUM, bindings::ENODATA),
            (BlkError::PROTECTION, bindings::EILSEQ),
            (BlkError::RESOURCE, bindings::ENOMEM),
            (BlkError::IOERR, bindings::EIO),
            (BlkError::AGAIN, bindings::EAGAIN),
            (BlkError::DEV_RESOURCE, bindings::EBUSY),
            (BlkError::ZONE_OPEN_RESOURCE, bindings::ETOOMANYREFS),
            (BlkError::ZONE_ACTIVE_RESOURCE, bindings::EOVERFLOW),
            (BlkError::OFFLINE, bindings::ENODEV),
            (BlkError::DURATION_LIMIT, bindings::ETIME),
            (BlkError::INVAL, bindings::EINVAL),
        ] {
            let raw = BlkError::result_to_raw(Err(error));
            // SAFETY: The function has no preconditions.
            let found = unsafe { bindings::blk_status_to_errno(raw) };
            // CAST: The numbers are small.
            assert_eq!(found, -(errno as kernel::ffi::c_int));
            assert!(BlkError::result_from_raw(raw) == Err(error));
        }
    }
}
