// SPDX-License-Identifier: GPL-2.0

//! Pools of memory with a size that is known only at run time.

use kernel::{
    bindings::{
        mempool_alloc_t,
        mempool_free_t, //
    },
    num::casts::FromSafeCast,
    prelude::*, //
};

use core::{
    ffi::c_void,
    mem::MaybeUninit,
    num::NonZeroUsize,
    ptr::{
        self,
        NonNull, //
    }, //
};

use super::{
    element::{
        Element,
        PoolRef, //
    },
    memory::Memory,
    source::Source, //
};
use crate::bindings;

/// A source of `kmalloc()` memory with a size in bytes that is set at run time.
///
/// [`Kmalloc`](super::Kmalloc) is the source for values of a type.
pub(crate) struct KmallocBytes(NonZeroUsize);

impl KmallocBytes {
    /// Creates the source.
    ///
    /// Returns [`EINVAL`] if `size` is 0 or more than `KMALLOC_MAX_SIZE`.
    pub(crate) fn new(size: usize) -> Result<Self> {
        match NonZeroUsize::new(size) {
            Some(size) if size.get() <= usize::from_safe_cast(bindings::KMALLOC_MAX_SIZE) => {
                Ok(Self(size))
            }
            _ => Err(EINVAL),
        }
    }

    /// Returns the size in bytes.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.0.get()
    }
}

/// Memory from [`KmallocBytes`], which only its pool can free. Dropping it leaks the memory.
///
/// # Invariants
///
/// The pointer is valid for reads and writes of the source's size in bytes, and `self` is its only
/// owner.
#[repr(transparent)]
pub(crate) struct RawBytes(NonNull<u8>);

// SAFETY: It contains no value, and `kfree()` may be called by any task.
unsafe impl Send for RawBytes {}

// SAFETY: `&RawBytes` gives access to the address only.
unsafe impl Sync for RawBytes {}

// SAFETY:
// - It is a transparent `NonNull`.
// - `self` owns the memory by the type invariants, and never frees it.
// - No method writes a value to it.
unsafe impl Memory for RawBytes {
    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        self.0.cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw.cast())
    }
}

// SAFETY:
// - `mempool_kmalloc()` in `mm/mempool.c` returns `kmalloc()` memory. Its size in bytes is `data`,
//   the size of the source.
// - `mempool_kfree()` is `kfree()`.
unsafe impl Source for KmallocBytes {
    type Memory = RawBytes;

    const ALLOC: mempool_alloc_t = Some(bindings::mempool_kmalloc);
    const FREE: mempool_free_t = Some(bindings::mempool_kfree);

    unsafe fn data(this: *const Self) -> *mut c_void {
        // SAFETY: By the safety requirements.
        ptr::without_provenance_mut(unsafe { (*this).size() })
    }

    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<RawBytes>]) {
        for slot in slots {
            // SAFETY: The slot holds memory by the safety requirements.
            let memory = unsafe { slot.assume_init_read() }.into_raw();
            // SAFETY: It is from this source by the safety requirements, so from `kmalloc()`.
            unsafe { bindings::kfree(memory.as_ptr()) };
        }
    }
}

impl<P: PoolRef> Element<P> {
    /// Returns the address, valid for reads and writes of [`Self::size()`] bytes while `self`
    /// lives.
    ///
    /// The alignment is the largest power of two that divides the size, as with `kmalloc()`.
    #[inline]
    pub(crate) fn as_byte_ptr(&self) -> NonNull<u8>
    where
        P: PoolRef<Source = KmallocBytes>,
    {
        self.memory().0
    }

    /// Returns the size in bytes.
    #[inline]
    pub(crate) fn size(&self) -> usize
    where
        P: PoolRef<Source = KmallocBytes>,
    {
        self.source().size()
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_bytes)]
mod tests {
    use super::*;

    use super::super::Mempool;
    use crate::mm::gfp::Gfp;

    #[test]
    fn element_has_the_requested_size() -> Result {
        for size in [1, 8, 500, 4096, 70000] {
            let pool = KBox::pin_init(Mempool::new(2, KmallocBytes::new(size)?), GFP_KERNEL)?;
            let first = pool.alloc(Gfp::NOIO)?;
            let reserved = pool.alloc_preallocated().ok_or(ENOMEM)?;

            for element in [&first, &reserved] {
                assert_eq!(element.size(), size);
                // SAFETY: The memory has `size` bytes.
                unsafe { element.as_byte_ptr().write_bytes(0x5a, size) };
            }
        }
        Ok(())
    }

    #[test]
    fn element_is_aligned_to_its_size() -> Result {
        for size in [16, 48, 64, 1040, 4096] {
            let pool = KBox::pin_init(Mempool::new(1, KmallocBytes::new(size)?), GFP_KERNEL)?;
            let element = pool.alloc(Gfp::NOIO)?;
            let align = 1 << size.trailing_zeros().min(12);

            assert_eq!(element.as_byte_ptr().as_ptr() as usize % align, 0);
        }
        Ok(())
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        assert!(KmallocBytes::new(bindings::KMALLOC_MAX_SIZE as usize).is_ok());
        for size in [0, bindings::KMALLOC_MAX_SIZE as usize + 1, usize::MAX] {
            assert!(KmallocBytes::new(size).is_err());
        }
    }
}
