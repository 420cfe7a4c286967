// SPDX-License-Identifier: GPL-2.0

//! Integrity metadata: extra bytes that a device stores with each sector.
//!
//! Some devices store a few extra bytes with each sector, for example dm-integrity and disks with
//! such a format. An [`IntegrityPayload`] holds these bytes for the sectors of a bio, as
//! consecutive tuples. They belong to the bio while a device may use them.
//!
//! Not covered: protection information, which the block layer generates and verifies.
//!
//! C header: [`include/linux/bio-integrity.h`](srctree/include/linux/bio-integrity.h)

use kernel::{
    error::to_result,
    num::casts::FromSafeCast,
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

/// The integrity profile of a device, `struct blk_integrity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegrityProfile {
    /// Size in bytes of the tuple of an interval.
    pub tuple_size: NonZeroU32,
    /// Size in bytes of an interval, the data that a tuple belongs to.
    pub interval: u32,
    /// Whether the metadata is protection information that the block layer generates and verifies.
    /// Otherwise the submitter provides it.
    pub is_protection: bool,
}

impl IntegrityProfile {
    /// Returns the profile of a device, or [`None`] without one or without kernel support.
    ///
    /// # Safety
    ///
    /// `bdev` must be open.
    pub(crate) unsafe fn of(bdev: *mut bindings::block_device) -> Option<Self> {
        let (mut tuple_size, mut interval, mut is_protection) = (0, 0, false);

        // SAFETY: `bdev` is open by this function's contract.
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
pub struct IntegrityPayload {
    memory: Memory,
    /// At most the size of `memory`, and not 0. The first `len` bytes are initialised.
    len: u32,
}

enum Memory {
    Own(KVec<u8>),
    Reserved(Element<Arc<Mempool<KmallocBytes>>>),
}

// SAFETY: Any task may use and free memory from `kmalloc()`.
unsafe impl Send for IntegrityPayload {}

// SAFETY: `&IntegrityPayload` only allows reads.
unsafe impl Sync for IntegrityPayload {}

impl IntegrityPayload {
    /// Allocates `len` zeroed bytes. Returns [`None`] if no memory is available at once, or `len`
    /// is 0.
    ///
    /// Context: Any context. Never sleeps.
    pub fn new(len: u32) -> Option<Self> {
        if len == 0 {
            return None;
        }
        let bytes =
            KVec::from_elem(0, usize::from_safe_cast(len), GFP_NOWAIT | __GFP_NOWARN).ok()?;

        Some(Self {
            memory: Memory::Own(bytes),
            len,
        })
    }

    /// Returns the bytes.
    ///
    /// Context: Any context. Never sleeps.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(bytes) => bytes,
            // SAFETY: The first `len` bytes of the memory are initialised, by the type's
            // description, and the element is not shared.
            Memory::Reserved(element) => unsafe {
                slice::from_raw_parts(element.as_byte_ptr().as_ptr(), self.len as usize)
            },
        }
    }

    /// Returns the bytes for writing.
    ///
    /// Context: Any context. Never sleeps.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Own(bytes) => bytes,
            // SAFETY: As above.
            Memory::Reserved(element) => unsafe {
                slice::from_raw_parts_mut(element.as_byte_ptr().as_ptr(), self.len as usize)
            },
        }
    }

    /// Attaches these bytes to `bio`, whose device reads or writes them with the sectors.
    ///
    /// Fails with [`EINVAL`] if the device stores another number of bytes with the sectors, or if
    /// the bio already has a payload.
    ///
    /// Context: Process context. May sleep.
    ///
    /// # Safety
    ///
    /// `bio` must be alive and owned by the caller. Its device must be set and open. `self` must
    /// live and stay unused until the device has completed the bio.
    pub(crate) unsafe fn attach(&mut self, bio: *mut bindings::bio) -> Result {
        let bytes = self.as_mut_slice();
        let (data, len) = (bytes.as_mut_ptr(), bytes.len());

        // SAFETY:
        // - `bio` is valid by this function's contract.
        // - `data` is memory from `kmalloc()`, so it is physically contiguous. It stays allocated
        //   by this function's contract.
        //
        // CAST: The length came from a `u32`.
        to_result(unsafe { bindings::bio_attach_integrity(bio, data.cast(), len as u32) })
    }
}

/// A reserve of memory for [`IntegrityPayload`]s. It guarantees forward progress of bios when
/// memory is short.
pub struct IntegrityPool(Arc<Mempool<KmallocBytes>>);

impl IntegrityPool {
    /// Creates a reserve of `min_nr` elements of `max_len` bytes.
    ///
    /// Fails with [`EINVAL`] if `min_nr` or `max_len` is 0, and with [`ENOMEM`] if there is no
    /// memory.
    ///
    /// Context: Process context. May sleep.
    pub fn new(min_nr: usize, max_len: u32) -> Result<Self> {
        let source = KmallocBytes::new(usize::from_safe_cast(max_len))?;

        Ok(Self(Arc::pin_init(
            Mempool::new(min_nr, source),
            GFP_KERNEL,
        )?))
    }

    /// Allocates `len` zeroed bytes. Without free memory, takes them from the reserve, and waits
    /// for a free element if the reserve is empty.
    ///
    /// Fails with [`EINVAL`] if `len` is 0 or larger than the `max_len` of the pool.
    ///
    /// Context: Process context. May sleep. Starts no I/O.
    pub fn alloc(&self, len: u32) -> Result<IntegrityPayload> {
        if len == 0 || usize::from_safe_cast(len) > self.0.source().size() {
            return Err(EINVAL);
        }
        let element = self.0.alloc_arc(Gfp::NOIO)?;
        // SAFETY: The memory has at least `len` bytes, and is not shared.
        unsafe { element.as_byte_ptr().write_bytes(0, len as usize) };

        Ok(IntegrityPayload {
            memory: Memory::Reserved(element),
            len,
        })
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_bio_integrity)]
mod tests {
    use super::*;

    use crate::testing::lockdep;

    #[test]
    fn payload_is_zeroed_on_allocation() -> Result {
        let pool = IntegrityPool::new(2, 5000)?;

        for len in [1, 28, 4096, 5000] {
            for mut payload in [IntegrityPayload::new(len).ok_or(ENOMEM)?, pool.alloc(len)?] {
                assert_eq!(payload.as_slice().len(), len as usize);
                assert!(payload.as_slice().iter().all(|&byte| byte == 0));
                payload.as_mut_slice().fill(0xee);
                assert!(payload.as_slice().iter().all(|&byte| byte == 0xee));
            }
        }
        Ok(())
    }

    #[test]
    fn invalid_lengths_are_rejected() -> Result {
        let pool = IntegrityPool::new(1, 512)?;

        assert!(IntegrityPayload::new(0).is_none());
        assert_eq!(pool.alloc(0).err(), Some(EINVAL));
        assert_eq!(pool.alloc(513).err(), Some(EINVAL));
        assert_eq!(IntegrityPool::new(1, 0).err(), Some(EINVAL));
        assert_eq!(IntegrityPool::new(0, 512).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn reserve_has_all_elements() -> Result {
        for min_nr in [1, 2, 5] {
            assert_eq!(IntegrityPool::new(min_nr, 512)?.0.min_nr(), min_nr);
        }
        Ok(())
    }

    #[test]
    fn reserve_is_for_reclaim() -> Result {
        let was_active = lockdep::is_active();
        let pool = IntegrityPool::new(1, 512)?;

        let payload = lockdep::in_reclaim(|| pool.alloc(512));
        assert!(payload.is_ok());
        assert_eq!(lockdep::is_active(), was_active);
        Ok(())
    }

    #[test]
    fn payload_keeps_its_pool_alive() -> Result {
        let pool = IntegrityPool::new(1, 512)?;
        let mut payload = pool.alloc(512)?;

        drop(pool);
        payload.as_mut_slice().fill(1);
        assert_eq!(payload.as_slice().len(), 512);
        Ok(())
    }
}
