// SPDX-License-Identifier: GPL-2.0

//! Functions of the bio in C, for a bio in `map` and for a bio with per-bio data.

use crate::{
    bindings,
    block::{
        bio::Op,
        dm::target::{
            devices::DeviceIndex,
            vtable::Inner,
            Target, //
        }, //
    }, //
};

/// Returns the operation of a bio.
///
/// # Safety
///
/// `bio` must be alive.
#[inline]
pub(super) unsafe fn op(bio: *mut bindings::bio) -> Op {
    // SAFETY: By this function's contract.
    Op::from_opf(unsafe { (*bio).bi_opf })
}

/// Returns the position of a bio.
///
/// # Safety
///
/// `bio` must be alive.
#[inline]
pub(super) unsafe fn iter(bio: *mut bindings::bio) -> bindings::bvec_iter {
    // A copy of the whole struct takes words with two fields, and then splits them.
    //
    // SAFETY: By this function's contract.
    unsafe {
        bindings::bvec_iter {
            bi_sector: (*bio).bi_iter.bi_sector,
            bi_size: (*bio).bi_iter.bi_size,
            bi_idx: (*bio).bi_iter.bi_idx,
            bi_offset: (*bio).bi_iter.bi_offset,
        }
    }
}

/// Returns the table of segments of a bio, and `iter` with 0 bytes if the operation has no memory.
///
/// # Safety
///
/// `bio` must be alive.
#[inline]
pub(super) unsafe fn table(
    bio: *mut bindings::bio,
    mut iter: bindings::bvec_iter,
) -> (*const bindings::bio_vec, bindings::bvec_iter) {
    // SAFETY: By this function's contract.
    if !matches!(unsafe { op(bio) }, Op::Read | Op::Write) {
        // Other operations have a length, but no table or another kind of table.
        iter.bi_size = 0;
    }
    // SAFETY: By this function's contract.
    (unsafe { (*bio).bi_io_vec }, iter)
}

/// As [`table()`], with 0 bytes unless the bio is a read.
///
/// # Safety
///
/// `bio` must be alive.
#[inline]
pub(super) unsafe fn writable_table(
    bio: *mut bindings::bio,
    iter: bindings::bvec_iter,
) -> (*const bindings::bio_vec, bindings::bvec_iter) {
    // SAFETY: By this function's contract.
    let (table, mut iter) = unsafe { table(bio, iter) };
    // SAFETY: By this function's contract.
    if unsafe { op(bio) } != Op::Read {
        // The submitter of a write owns its pages: they may be mapped read-only, or be the zero
        // page.
        iter.bi_size = 0;
    }
    (table, iter)
}

/// Points a bio at a device of its target. Returns [`None`] if the target has no such device.
///
/// # Safety
///
/// `bio` must be a bio of a target `inner`, alive and owned by the caller.
#[inline]
pub(super) unsafe fn set_dev<T: Target>(
    bio: *mut bindings::bio,
    inner: &Inner<T>,
    device: DeviceIndex,
    sector: u64,
) -> Option<()> {
    let bdev = inner.devices().bdev(device)?;
    // SAFETY: The bio is alive by this function's contract, and the device is open while the target
    // lives, see `Devices`.
    unsafe { bindings::bio_set_dev(bio, bdev) };
    // SAFETY: By this function's contract.
    unsafe { (*bio).bi_iter.bi_sector = sector };
    Some(())
}
