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
    prelude::*,
    types::Opaque, //
};

use core::num::NonZeroU16;

use crate::{
    bindings,
    lib::task_stack, //
};

#[cfg(kscale_kunit)]
mod buffer;
mod error;
mod filled;
mod integrity;
mod segment;

pub use kernel::block::SECTOR_SIZE;

#[cfg(kscale_kunit)]
pub use self::buffer::Buffer;
pub(crate) use self::filled::Filled;
#[doc(inline)]
pub use self::{
    error::{
        BlkError,
        BlkResult, //
    },
    integrity::{
        IntegrityPayload,
        IntegrityPool,
        IntegrityProfile, //
    },
    segment::{
        Segment,
        SegmentMut,
        Segments,
        SegmentsMut, //
    },
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

/// The flag of a set whose freed bios stay on their CPU.
///
/// `bio_alloc_percpu_cache()` in `block/bio.c` calls `kmemleak_alloc()` with `GFP_NOIO`, which may
/// sleep, also if the caller must not.
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
// the mempools and the slab of the set have their own locks, and the caches of freed bios are those
// of a CPU: `bio_alloc_percpu_cache()` and `bio_put_percpu_cache()` disable preemption.
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
    /// Fails with [`ENOMEM`] if the reserve cannot be allocated, and with [`EINVAL`] on the stack.
    ///
    /// Context: Process context. May sleep. C: `bioset_init()` in `block/bio.c`.
    pub fn new(pool_size: NonZeroU16) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: `inner` is initialised if this closure returns `Ok`.
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::bio_set| {
                task_stack::refuse(slot)?;
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

    use crate::mm::gfp::Gfp;

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

    #[test]
    fn sets_are_not_on_the_stack() {
        pin_init::stack_try_pin_init!(let set: BioSet = BioSet::new(NonZeroU16::MIN));

        assert!(matches!(set, Err(error) if error == EINVAL));
    }

    /// Also shows that no allocation sleeps in atomic context: with `CONFIG_DEBUG_KMEMLEAK`, one
    /// from the cache does.
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
