// SPDX-License-Identifier: GPL-2.0

//! Integrity data: what a device keeps beside its sectors.
//!
//! Some devices have room for a few bytes more with each of their sectors, such as dm-integrity, and
//! disks that were formatted so. [`Tags`] are these bytes for the sectors of one bio, one tuple
//! behind the other. They belong to the bio as long as a device may use them.
//!
//! Not covered: protection information, which the block layer makes and checks itself.
//!
//! C header: [`include/linux/bio-integrity.h`](srctree/include/linux/bio-integrity.h)

use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use core::{
    num::NonZeroU32,
    slice, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        mempool::{
            Element,
            KmallocBytes,
            Mempool, //
        }, //
    }, //
};

/// What a device keeps beside its sectors, `struct blk_integrity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegrityProfile {
    /// Bytes beside each interval: a tuple.
    pub tuple_size: NonZeroU32,
    /// How much data belongs to a tuple, in bytes.
    pub interval: u32,
    /// Whether the block layer makes and checks the data itself, or leaves it to who writes.
    pub is_protection: bool,
}

impl IntegrityProfile {
    /// Returns the profile of a device, [`None`] if it has none, or the kernel does not know any.
    ///
    /// # Safety
    ///
    /// `bdev` must be open.
    pub(crate) unsafe fn of(bdev: *mut bindings::block_device) -> Option<Self> {
        let (mut tuple_size, mut interval, mut is_protection) = (0, 0, false);

        // SAFETY: `bdev` is open by the safety requirements.
        unsafe {
            bindings::bdev_integrity_profile(
                bdev,
                &mut tuple_size,
                &mut interval,
                &mut is_protection,
            )
        };
        Some(Self {
            tuple_size: NonZeroU32::new(tuple_size)?,
            interval,
            is_protection,
        })
    }
}

/// Memory for the integrity data of one bio.
pub struct Tags {
    memory: Memory,
    /// At most the size of `memory`, and not 0. All these bytes are initialised.
    len: u32,
}

enum Memory {
    Own(KVec<u8>),
    Reserved(Element<Arc<Mempool<KmallocBytes>>>),
}

// SAFETY: Memory from `kmalloc()` may be used and freed by any task.
unsafe impl Send for Tags {}

// SAFETY: `&Tags` only reads it.
unsafe impl Sync for Tags {}

impl Tags {
    /// Allocates `len` bytes, all zero; [`None`] if there is no memory at once, or `len` is 0.
    ///
    /// Context: Any. Never sleeps.
    pub fn new(len: u32) -> Option<Self> {
        if len == 0 {
            return None;
        }
        // CAST: From 32 to 64 bits.
        let bytes = KVec::from_elem(0, len as usize, GFP_NOWAIT | __GFP_NOWARN).ok()?;

        Some(Self {
            memory: Memory::Own(bytes),
            len,
        })
    }

    /// Returns the bytes.
    ///
    /// Context: Any.
    pub fn as_slice(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(bytes) => bytes,
            // SAFETY: So many bytes of the memory are initialised, by the type's description, and
            // nobody else has it.
            Memory::Reserved(element) => unsafe {
                slice::from_raw_parts(element.as_byte_ptr().as_ptr(), self.len as usize)
            },
        }
    }

    /// Returns the bytes for writing.
    ///
    /// Context: Any.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Own(bytes) => bytes,
            // SAFETY: As above.
            Memory::Reserved(element) => unsafe {
                slice::from_raw_parts_mut(element.as_byte_ptr().as_ptr(), self.len as usize)
            },
        }
    }

    /// Has the device of `bio` read or write these bytes with the sectors of the bio.
    ///
    /// Fails with [`EINVAL`] if it does not keep as many with them, or the bio has others already.
    ///
    /// Context: Task. Sleeps.
    ///
    /// # Safety
    ///
    /// `bio` must be alive, with its device set, which is open, and owned by the caller. `self` must
    /// live and stay unused until the device is done with the bio.
    pub(crate) unsafe fn attach(&mut self, bio: *mut bindings::bio) -> Result {
        let bytes = self.as_mut_slice();
        let (data, len) = (bytes.as_mut_ptr(), bytes.len());

        // SAFETY:
        // - `bio` is as it should be by the safety requirements.
        // - `data` is memory from `kmalloc()`, so it is mapped in one piece, and stays by the safety
        //   requirements.
        //
        // CAST: Made of a `u32`.
        to_result(unsafe { bindings::bio_attach_integrity(bio, data.cast(), len as u32) })
    }
}

/// A reserve of memory for [`Tags`], so that bios go on when memory is short.
pub struct TagPool(Arc<Mempool<KmallocBytes>>);

impl TagPool {
    /// Creates a reserve of `min_nr` times `max_len` bytes.
    ///
    /// Fails with [`EINVAL`] if one of them is 0, and with [`ENOMEM`] if there is no memory.
    ///
    /// Context: Task. Sleeps.
    pub fn new(min_nr: usize, max_len: u32) -> Result<Self> {
        // CAST: From 32 to 64 bits.
        let source = KmallocBytes::new(max_len as usize)?;

        Ok(Self(Arc::pin_init(
            Mempool::new(min_nr, source),
            GFP_KERNEL,
        )?))
    }

    /// Takes `len` bytes, all zero, of the reserve if there is no memory, and waits for some to
    /// come back if that is empty.
    ///
    /// Fails with [`EINVAL`] if `len` is 0, or more than the pool was made for.
    ///
    /// Context: Task. Sleeps. Starts no I/O.
    pub fn alloc(&self, len: u32) -> Result<Tags> {
        // CAST: From 32 to 64 bits.
        if len == 0 || len as usize > self.0.source().size() {
            return Err(EINVAL);
        }
        let element = self.0.alloc_arc(Gfp::NOIO)?;
        // SAFETY: The memory has so many bytes at least, and it is ours.
        unsafe { element.as_byte_ptr().write_bytes(0, len as usize) };

        Ok(Tags {
            memory: Memory::Reserved(element),
            len,
        })
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_bio_integrity)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_zeros_at_first() -> Result {
        let pool = TagPool::new(2, 5000)?;

        for len in [1, 28, 4096, 5000] {
            for mut tags in [Tags::new(len).ok_or(ENOMEM)?, pool.alloc(len)?] {
                assert_eq!(tags.as_slice().len(), len as usize);
                assert!(tags.as_slice().iter().all(|&byte| byte == 0));
                tags.as_mut_slice().fill(0xee);
                assert!(tags.as_slice().iter().all(|&byte| byte == 0xee));
            }
        }
        Ok(())
    }

    #[test]
    fn senseless_lengths_are_refused() -> Result {
        let pool = TagPool::new(1, 512)?;

        assert!(Tags::new(0).is_none());
        assert_eq!(pool.alloc(0).err(), Some(EINVAL));
        assert_eq!(pool.alloc(513).err(), Some(EINVAL));
        assert_eq!(TagPool::new(1, 0).err(), Some(EINVAL));
        assert_eq!(TagPool::new(0, 512).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn tags_keep_their_pool() -> Result {
        let pool = TagPool::new(1, 512)?;
        let mut tags = pool.alloc(512)?;

        drop(pool);
        tags.as_mut_slice().fill(1);
        assert_eq!(tags.as_slice().len(), 512);
        Ok(())
    }
}
