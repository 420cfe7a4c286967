// SPDX-License-Identifier: GPL-2.0

//! Block I/O types: operations, results, and the memory of a bio.
//!
//! Device mapper passes a bio to a target as a [`dm::MapBio`] or a [`dm::Bio`]. This module has the
//! types that these use. Other tasks or devices may write to the pages of a bio at any time, for
//! example a process that has them mapped. So a [`Segment`] is never a `&[u8]`: it refers to memory
//! that C code reads, and a [`SegmentMut`] to memory that C code may also write. Both can be copied
//! to and from buffers.
//!
//! Not covered: bios that belong to no target, protection information.
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/bvec.h`](srctree/include/linux/bvec.h)
//!
//! [`dm::MapBio`]: crate::block::dm::MapBio
//! [`dm::Bio`]: crate::block::dm::Bio

use kernel::{
    error::to_result,
    num::casts::IntoSafeCast,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

use core::{
    marker::PhantomData,
    num::{
        NonZeroU16,
        NonZeroU32, //
    },
    ptr::NonNull, //
};

use crate::bindings;

#[cfg(kscale_kunit)]
mod buffer;
mod bytes;
mod copy;
mod filled;
mod integrity;

pub use kernel::block::SECTOR_SIZE;

#[cfg(kscale_kunit)]
pub use self::buffer::Buffer;
use self::filled::FillPosition;
pub(crate) use self::filled::Filled;
#[doc(inline)]
pub use self::integrity::{
    IntegrityPayload,
    IntegrityPool,
    IntegrityProfile, //
};

/// The operation of a bio, `enum req_op`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads sectors into the bio's pages.
    Read,
    /// Writes the bio's pages to sectors.
    Write,
    /// Discards sectors that are no longer in use.
    Discard,
    /// As [`Op::Discard`], but the data must not be recoverable.
    SecureErase,
    /// Writes zeroes to sectors; the bio has no pages.
    WriteZeroes,
    /// Changes the state of a zone or of all zones; the bio has no pages.
    ZoneManagement,
    /// Any other operation, for example a driver-private one.
    Other,
}

impl Op {
    pub(crate) fn from_opf(opf: bindings::blk_opf_t) -> Self {
        match opf & bindings::REQ_OP_MASK {
            bindings::req_op_REQ_OP_READ => Self::Read,
            bindings::req_op_REQ_OP_WRITE => Self::Write,
            bindings::req_op_REQ_OP_DISCARD => Self::Discard,
            bindings::req_op_REQ_OP_SECURE_ERASE => Self::SecureErase,
            bindings::req_op_REQ_OP_WRITE_ZEROES => Self::WriteZeroes,
            bindings::req_op_REQ_OP_ZONE_OPEN
            | bindings::req_op_REQ_OP_ZONE_CLOSE
            | bindings::req_op_REQ_OP_ZONE_FINISH
            | bindings::req_op_REQ_OP_ZONE_RESET
            | bindings::req_op_REQ_OP_ZONE_RESET_ALL => Self::ZoneManagement,
            _ => Self::Other,
        }
    }
}

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

/// Memory inside a single page that C code may read during `'a`.
///
/// # Invariants
///
/// `offset + len <= PAGE_SIZE`. During `'a` the page is allocated, and these bytes may be read
/// through the kernel mapping of the page.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
    _memory: PhantomData<&'a [u8]>,
}

impl Segment<'_> {
    /// Returns the length in bytes, at most [`PAGE_SIZE`].
    ///
    /// Context: Any context. Never sleeps.
    #[expect(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the page, the offset into it, and the length, both in bytes.
    #[inline]
    pub(crate) fn as_raw_parts(&self) -> (*mut bindings::page, u32, u32) {
        (self.page.as_ptr(), self.offset, self.len)
    }
}

/// Memory inside a single page that C code may read and write during `'a`.
///
/// # Invariants
///
/// As those of [`Segment`]. The bytes may also be written, and no other live segment of this bio
/// contains them. If there is a position, it is that of the bytes in the memory that its
/// `Filled` counts.
pub struct SegmentMut<'a>(Segment<'a>, Option<FillPosition<'a>>);

impl<'a> SegmentMut<'a> {
    /// Returns the length in bytes, at most [`PAGE_SIZE`].
    ///
    /// Context: Any context. Never sleeps.
    #[expect(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.len
    }

    /// Returns the same memory for reading.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn as_segment(&self) -> Segment<'_> {
        self.0
    }

    /// Removes the first `len` bytes from the segment, and returns them as a segment.
    ///
    /// Returns [`None`], and removes nothing, if the segment is shorter.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn split_to(&mut self, len: u32) -> Option<SegmentMut<'a>> {
        let rest = self.0.len.checked_sub(len)?;
        // INVARIANT: The bytes of `self`, so they are in its page, and at the position of `self`.
        let front = SegmentMut(Segment { len, ..self.0 }, self.1);

        // INVARIANT: The bytes after those of `front`, which ends where `self` begins now, so the
        // segments do not overlap.
        // OVERFLOW: At most `PAGE_SIZE`, by the type invariants.
        self.0.offset = self.0.offset.wrapping_add(len);
        self.0.len = rest;
        self.1 = self.1.map(|position| position.advance(len));
        Some(front)
    }

    /// Returns the page, the offset into it, and the length, both in bytes.
    #[inline]
    pub(crate) fn as_raw_parts(&self) -> (*mut bindings::page, u32, u32) {
        self.0.as_raw_parts()
    }

    /// Records that the whole segment was written.
    ///
    /// The caller must have written it, or must reset [`Self::filled()`] if the write fails.
    #[inline]
    pub(crate) fn record_filled(&self) {
        if let Some(position) = self.1 {
            position.record(0, self.0.len);
        }
    }

    /// Returns the counter of written bytes, if the segment has one.
    #[inline]
    pub(crate) fn filled(&self) -> Option<&'a Filled> {
        Some(self.1?.filled())
    }
}

/// An iterator over the memory of a bio by segments.
///
/// # Invariants
///
/// If `left_bytes` is not 0, `vec` is an element of a table of `bio_vec`s with at least `left_bytes`
/// bytes from byte `offset` of `vec` on, and `offset` is at most `vec.bv_len`. During `'a`, table and
/// pages do not change.
pub struct Segments<'a> {
    vec: *const bindings::bio_vec,
    left_bytes: u32,
    offset: u32,
    _bio: PhantomData<&'a bindings::bio>,
}

impl<'a> Segments<'a> {
    /// Creates an iterator.
    ///
    /// # Safety
    ///
    /// - `table` must have at least `iter.bi_size` bytes from `iter` on, unless `iter.bi_size` is
    ///   0.
    /// - During `'a`, the table must not change and the bytes must stay readable.
    #[inline]
    pub(crate) unsafe fn new(table: *const bindings::bio_vec, iter: bindings::bvec_iter) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            vec: table.wrapping_add(iter.bi_idx.into_safe_cast()),
            left_bytes: iter.bi_size,
            offset: iter.bi_offset,
            _bio: PhantomData,
        }
    }

    /// Returns the number of bytes left.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn remaining_bytes(&self) -> u32 {
        self.left_bytes
    }

    /// Returns the next segment, of at most `max_bytes` bytes, or [`None`] at the end.
    ///
    /// A segment never crosses a page, so it may be shorter than `max_bytes` before the end.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn next_segment(&mut self, max_bytes: NonZeroU32) -> Option<Segment<'a>> {
        const PAGE_BYTES: u32 = PAGE_SIZE as u32;

        loop {
            if self.left_bytes == 0 {
                return None;
            }

            // SAFETY: There are bytes left, so `vec` is an element of the table, which does not
            // change, by the type invariants.
            let vec = unsafe { *self.vec };

            // The arithmetic follows `bvec_iter_bvec()` and `bvec_iter_advance_single()`. No
            // operation wraps: `offset` is at most `bv_len` by the type invariants, and C keeps the
            // end of a `bio_vec` below 4 GiB.
            let left = vec.bv_len.wrapping_sub(self.offset);
            let start = vec.bv_offset.wrapping_add(self.offset);
            let offset = start % PAGE_BYTES;
            let len = left
                .min(self.left_bytes)
                .min(PAGE_BYTES - offset)
                .min(max_bytes.get());

            // INVARIANT: The bytes behind the segment are left. If they do not begin in this
            // `bio_vec`, they begin in the next one.
            self.left_bytes -= len;
            if len == left {
                self.vec = self.vec.wrapping_add(1);
                self.offset = 0;
            } else {
                self.offset = self.offset.wrapping_add(len);
            }
            if len == 0 {
                // An empty `bio_vec`: C skips it too.
                continue;
            }

            // The pages of one `bio_vec` are adjacent in the memory map, see `bvec_iter_page()`.
            let page = vec
                .bv_page
                .wrapping_add((start / PAGE_BYTES).into_safe_cast());
            // INVARIANT: `offset + len <= PAGE_SIZE` by the minimum above; the other invariants are
            // those of `self`.
            return Some(Segment {
                page: NonNull::new(page)?,
                offset,
                len,
                _memory: PhantomData,
            });
        }
    }
}

/// A mutable iterator over the memory of a bio by segments.
///
/// # Invariants
///
/// The bytes that `0` has not yet visited may be written during `'a`, and no other Rust code has a
/// segment of them. If there is a `Filled`, these bytes are the last ones of the memory that it
/// counts. The number is the size of this memory in bytes.
pub struct SegmentsMut<'a>(Segments<'a>, Option<(&'a Filled, u32)>);

impl<'a> SegmentsMut<'a> {
    /// Creates an iterator.
    ///
    /// # Safety
    ///
    /// - As for [`Segments::new()`], and the bytes may be written during `'a`.
    /// - During `'a` no other iterator over these bytes may exist.
    pub(crate) unsafe fn new(table: *const bindings::bio_vec, iter: bindings::bvec_iter) -> Self {
        // SAFETY: By this function's contract, which includes that of `new()`.
        // INVARIANT: By this function's contract.
        Self(unsafe { Segments::new(table, iter) }, None)
    }

    /// Creates an iterator over new memory that counts written bytes in `filled`.
    ///
    /// # Safety
    ///
    /// As for [`Self::new()`], and `filled` must count all of these bytes.
    #[inline]
    pub(crate) unsafe fn new_unfilled(
        table: *const bindings::bio_vec,
        iter: bindings::bvec_iter,
        filled: &'a Filled,
    ) -> Self {
        // SAFETY: By this function's contract, which includes that of `new()`.
        // INVARIANT: By this function's contract.
        Self(
            unsafe { Segments::new(table, iter) },
            Some((filled, iter.bi_size)),
        )
    }

    /// Returns the number of bytes left.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn remaining_bytes(&self) -> u32 {
        self.0.remaining_bytes()
    }

    /// Returns the next segment, of at most `max_bytes` bytes, or [`None`] at the end.
    ///
    /// A segment never crosses a page, so it may be shorter than `max_bytes` before the end.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn next_segment(&mut self, max_bytes: NonZeroU32) -> Option<SegmentMut<'a>> {
        // OVERFLOW: The number of bytes left never exceeds `len`.
        let position = self.1.map(|(filled, len)| {
            FillPosition::new(filled, len.wrapping_sub(self.remaining_bytes()))
        });

        // INVARIANT: `0` visits every byte once, so no two segments overlap. The bytes may be
        // written by the type invariants. The remaining bytes begin with the segment.
        let segment = self.0.next_segment(max_bytes)?;
        Some(SegmentMut(segment, position))
    }
}

/// The flag of a set whose freed bios stay on their CPU.
///
/// `bio_alloc_percpu_cache()` in `block/bio.c` calls `kmemleak_alloc()` with `GFP_NOIO`, which may sleep,
/// also if the caller must not.
const CACHE_FLAG: u32 = if cfg!(CONFIG_DEBUG_KMEMLEAK) {
    0
} else {
    bindings::BIOSET_PERCPU_CACHE
};

/// A reserve of bios. It guarantees forward progress of allocations during write-back.
///
/// C: `struct bio_set`.
///
/// # Invariants
///
/// `inner` was initialised by `bioset_init()` and stays initialised until it is dropped.
#[pin_data(PinnedDrop)]
pub struct BioSet {
    #[pin]
    inner: Opaque<bindings::bio_set>,
}

// SAFETY: `bioset_exit()` may run on any task.
unsafe impl Send for BioSet {}

// SAFETY: `&BioSet` allows only `bio_alloc_bioset()` and `bio_put()`, which may run concurrently:
// the mempools and the slab of the set have their own locks, and the caches of freed bios are those of
// a CPU: `bio_alloc_percpu_cache()` and `bio_put_percpu_cache()` disable preemption.
unsafe impl Sync for BioSet {}

impl BioSet {
    /// The number of bytes in front of each bio, for the completion state of a
    /// [`dm::ChildBio`](crate::block::dm::ChildBio).
    pub(crate) const FRONT_PAD: usize = 32;

    /// Creates a set with a reserve of `pool_size` bios, each with a full table of segments.
    ///
    /// Each CPU keeps some freed bios with short tables for the next allocations, except on kernels
    /// with `CONFIG_DEBUG_KMEMLEAK`.
    ///
    /// Fails with [`ENOMEM`] if the reserve cannot be allocated.
    ///
    /// Context: Process context. May sleep. C: `bioset_init()` in `block/bio.c`.
    pub fn new(pool_size: NonZeroU16) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: `inner` is initialised if this closure returns `Ok`.
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::bio_set| {
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { slot.write_bytes(0, 1) };
                // SAFETY:
                // - `slot` is zeroed memory that does not move until `PinnedDrop`, as `inner` is
                //   structurally pinned.
                // - The flags are those of `bioset_init()`.
                to_result(unsafe {
                    bindings::bioset_init(
                        slot,
                        u32::from(pool_size.get()),
                        // CAST: The constant is 32.
                        Self::FRONT_PAD as u32,
                        // CAST: The constants are 1 and 4.
                        (bindings::BIOSET_NEED_BVECS | CACHE_FLAG) as kernel::ffi::c_int,
                    )
                })
            }),
        })
    }

    /// Returns the C object, which is initialised while `self` lives.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::bio_set {
        self.inner.get()
    }
}

#[pinned_drop]
impl PinnedDrop for BioSet {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY:
        // - `inner` is initialised by the type invariants.
        // - No bio of the set is left: a `dm::CloneBio` holds each of them, and keeps the target
        //   that owns the set alive.
        unsafe { bindings::bioset_exit(self.inner.get()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_bio)]
mod tests {
    use super::*;

    use crate::mm::{
        gfp::Gfp,
        page::Page, //
    };

    /// Iterates over `vecs` from byte `start` of the first, `size` bytes in steps of `max`. Returns
    /// the page index (counted from `first`), offset and length of each segment.
    fn walk(
        first: *mut bindings::page,
        vecs: &[(usize, u32, u32)],
        start: u32,
        size: u32,
        max: u32,
    ) -> Result<KVec<(usize, u32, u32)>> {
        let mut table = KVec::new();
        for &(page, bv_offset, bv_len) in vecs {
            let vec = bindings::bio_vec {
                bv_page: first.wrapping_add(page),
                bv_len,
                bv_offset,
            };
            table.push(vec, GFP_KERNEL)?;
        }
        let iter = bindings::bvec_iter {
            bi_size: size,
            bi_offset: start,
            ..Default::default()
        };
        // SAFETY: The callers pass at most as many bytes as `vecs` have, and `table` outlives the
        // iterator. No segment is read.
        let mut segments = unsafe { Segments::new(table.as_ptr(), iter) };
        let mut seen = KVec::new();
        while let Some(segment) = segments.next_segment(NonZeroU32::new(max).ok_or(EINVAL)?) {
            let (page, offset, len) = segment.as_raw_parts();
            let index = (page as usize - first as usize) / size_of::<bindings::page>();
            seen.push((index, offset, len), GFP_KERNEL)?;
        }
        Ok(seen)
    }

    #[test]
    fn segments_follow_the_table() -> Result {
        let page = Page::<0>::alloc(Gfp::KERNEL)?;
        let first = page.as_ptr();
        let whole = PAGE_SIZE as u32;

        // A whole page at once, and a part of it in steps.
        assert_eq!(
            walk(first, &[(0, 0, whole)], 0, whole, whole)?[..],
            [(0, 0, whole)]
        );
        assert_eq!(
            walk(first, &[(0, 512, 1024)], 0, 1024, 512)?[..],
            [(0, 512, 512), (0, 1024, 512)]
        );
        // A vector over several pages is split at page boundaries, for any offset.
        assert_eq!(
            walk(first, &[(0, whole - 512, 1024)], 0, 1024, whole)?[..],
            [(0, whole - 512, 512), (1, 0, 512)]
        );
        assert_eq!(
            walk(first, &[(0, 2 * whole + 8, 16)], 0, 16, whole)?[..],
            [(2, 8, 16)]
        );
        // An iterator may begin and end inside a vector, and skips empty vectors.
        assert_eq!(
            walk(
                first,
                &[(0, 0, 1024), (1, 0, 0), (2, 0, 1024)],
                512,
                1024,
                whole
            )?[..],
            [(0, 512, 512), (2, 0, 512)]
        );
        Ok(())
    }

    #[test]
    fn empty_bio_has_no_segments() -> Result {
        let page = Page::<0>::alloc(Gfp::KERNEL)?;
        assert!(walk(page.as_ptr(), &[], 0, 0, 512)?.is_empty());
        Ok(())
    }

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

    #[test]
    fn flags_do_not_change_the_operation() {
        for (raw, op) in [
            (bindings::req_op_REQ_OP_READ, Op::Read),
            (bindings::req_op_REQ_OP_WRITE, Op::Write),
            (bindings::req_op_REQ_OP_DISCARD, Op::Discard),
            (bindings::req_op_REQ_OP_SECURE_ERASE, Op::SecureErase),
            (bindings::req_op_REQ_OP_WRITE_ZEROES, Op::WriteZeroes),
            (bindings::req_op_REQ_OP_ZONE_OPEN, Op::ZoneManagement),
            (bindings::req_op_REQ_OP_ZONE_CLOSE, Op::ZoneManagement),
            (bindings::req_op_REQ_OP_ZONE_FINISH, Op::ZoneManagement),
            (bindings::req_op_REQ_OP_ZONE_RESET, Op::ZoneManagement),
            (bindings::req_op_REQ_OP_ZONE_RESET_ALL, Op::ZoneManagement),
            (bindings::req_op_REQ_OP_ZONE_APPEND, Op::Other),
        ] {
            assert!(Op::from_opf(raw) == op);
            assert!(Op::from_opf(raw | bindings::REQ_PREFLUSH) == op);
        }
    }

    /// Also shows that no allocation sleeps in atomic context: with `CONFIG_DEBUG_KMEMLEAK`, one from
    /// the cache does.
    #[test]
    fn freed_bios_stay_with_their_set() -> Result {
        let new = || KBox::pin_init(BioSet::new(NonZeroU16::MIN), GFP_KERNEL);
        let (set, other_set) = (new()?, new()?);
        let alloc = |set: &BioSet| {
            // SAFETY: The set is initialised, and has tables of segments.
            unsafe {
                bindings::bio_alloc_bioset(
                    core::ptr::null_mut(),
                    1,
                    bindings::req_op_REQ_OP_WRITE,
                    Gfp::NOWAIT.as_raw(),
                    set.as_raw(),
                )
            }
        };
        let free = |bio: *mut bindings::bio| {
            if !bio.is_null() {
                // SAFETY: The bio is from `alloc()`, and not used again.
                unsafe { bindings::bio_put(bio) };
            }
        };

        // The cache is that of a CPU.
        let cpu = crate::percpu::preempt_disable();
        let first = alloc(&set);
        free(first);
        // Both sets have the same slab cache, which would return the freed bio here.
        let other = alloc(&other_set);
        let again = alloc(&set);
        drop(cpu);
        free(other);
        free(again);
        assert!(!first.is_null() && !other.is_null());
        assert_eq!((again == first), !cfg!(CONFIG_DEBUG_KMEMLEAK));
        Ok(())
    }

    #[test]
    fn bio_set_allocates_its_reserves_until_drop() -> Result {
        let mut memory = KBox::<BioSet>::new_uninit(GFP_KERNEL)?;
        let set = memory.as_mut_ptr();

        // SAFETY: `set` is memory for a set that does not move, and is not used if this fails.
        unsafe { pin_init::raw_try_init(set, BioSet::new(NonZeroU16::new(4).ok_or(EINVAL)?)) }?;
        // SAFETY: The set was initialised above.
        let raw = unsafe { (*set).as_raw() };
        // SAFETY: As above.
        let (bios, tables) = unsafe { (&raw const (*raw).bio_pool, &raw const (*raw).bvec_pool) };
        // SAFETY: As above; the set is not shared.
        unsafe {
            assert_eq!(((*bios).min_nr, (*bios).curr_nr), (4, 4));
            assert_eq!(((*tables).min_nr, (*tables).curr_nr), (4, 4));
            assert_eq!((*raw).front_pad, 32);
            assert_eq!((*raw).cache.is_null(), cfg!(CONFIG_DEBUG_KMEMLEAK));
        }

        // SAFETY: The memory is not used as a set again.
        unsafe { set.drop_in_place() };
        // `bioset_exit()` leaves null pointers.
        //
        // SAFETY: The memory still has the bytes of the C object.
        unsafe {
            assert!((*bios).elements.is_null() && (*tables).elements.is_null());
            assert!((*raw).bio_slab.is_null() && (*raw).cache.is_null());
        }
        Ok(())
    }
}
