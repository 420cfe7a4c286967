// SPDX-License-Identifier: GPL-2.0

//! Ciphers with a key.

use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    num::casts::IntoSafeCast,
    prelude::*, //
};

use core::{
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    crypto::request_buf::RequestPool, //
};

use super::{
    request::{
        Data,
        Head, //
    },
    Request,
    MAX_IV_SIZE, //
};

/// Returns [`ENOENT`] for an empty algorithm name.
///
/// C does not check that. A larval algorithm has an empty driver name, so a lookup of an empty name
/// finds it (`__crypto_alg_lookup()` in `crypto/api.c`).
pub(crate) fn not_empty(name: &CStr) -> Result {
    if name.is_empty() {
        return Err(ENOENT);
    }
    Ok(())
}

/// A cipher and its key.
///
/// # Invariants
///
/// - `tfm` came from a successful `crypto_alloc_skcipher()` and has not been freed.
/// - `iv_size` and `block_size` are those of `tfm`; `iv_size` is at most [`MAX_IV_SIZE`].
/// - Powers of two from `min_sector_size` on are multiples of `block_size`.
/// - If there is a `pool`, its elements have room for the context of `tfm`. Otherwise `tfm` is
///   synchronous, and its context has at most `MAX_SYNC_SKCIPHER_REQSIZE` bytes.
/// - `is_async` is set unless `tfm` completes every request before the call returns.
pub struct Skcipher {
    pub(super) tfm: NonNull<bindings::crypto_skcipher>,
    iv_size: u32,
    block_size: NonZeroU32,
    min_sector_size: u32,
    pub(super) is_async: bool,
    pool: Option<RequestPool<Head, bindings::skcipher_request>>,
}

// SAFETY: A `crypto_skcipher` is not tied to the task that allocated it: any task may call
// `crypto_destroy_tfm()` in `crypto/api.c`.
unsafe impl Send for Skcipher {}

// SAFETY: `&self` only reads the C cipher: encryption and decryption do not modify it and may run
// in parallel (`struct skcipher_alg` in `include/crypto/skcipher.h`). Its key only changes through
// `&mut self`.
unsafe impl Sync for Skcipher {}

impl Skcipher {
    /// Returns the best implementation of `name`, such as `xts(aes)`, without a key.
    ///
    /// A synchronous implementation whose request fits on the stack is preferred, regardless of the
    /// priorities.
    ///
    /// May load a module. Fails with [`ENOENT`] if there is no such cipher or `name` is empty.
    /// Fails with [`EINVAL`] if its initialisation vector is longer than [`MAX_IV_SIZE`].
    ///
    /// Context: Process context. May sleep. Not for the I/O path: loading a module may wait for
    /// I/O.
    pub fn new(name: &CStr) -> Result<Self> {
        not_empty(name)?;
        match Self::new_sync(name) {
            Err(error) if error != ENOMEM => Self::new_any(name),
            result => result,
        }
    }

    /// As [`Self::new()`], but only returns ciphers whose request fits on the stack. Fails with
    /// [`EINVAL`] if the context of the cipher is too large.
    ///
    /// `crypto_alloc_sync_skcipher()` in `crypto/skcipher.c` does the same, but warns of such a
    /// context. A cipher name can request one: a nested `essiv()`.
    fn new_sync(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is a C string.
        let tfm = from_err_ptr(unsafe {
            bindings::crypto_alloc_skcipher(
                name.as_char_ptr(),
                0,
                bindings::CRYPTO_ALG_ALLOCATES_MEMORY
                    | bindings::CRYPTO_ALG_ASYNC
                    | bindings::CRYPTO_ALG_SKCIPHER_REQSIZE_LARGE,
            )
        })?;
        // SAFETY: `tfm` is a cipher.
        let reqsize = unsafe { bindings::crypto_skcipher_reqsize(tfm) };
        if reqsize > bindings::MAX_SYNC_SKCIPHER_REQSIZE {
            // SAFETY: The cipher is not used again.
            unsafe { bindings::crypto_free_skcipher(tfm) };
            return Err(EINVAL);
        }

        // SAFETY: `tfm` is new. It is synchronous: an algorithm with a flag that is in the mask and
        // not in the type is never chosen. Its context is small, as checked above.
        unsafe { Self::from_raw(tfm) }
    }

    /// As [`Self::new()`], but returns the implementation with the highest priority.
    #[cold]
    fn new_any(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is a C string.
        let tfm = from_err_ptr(unsafe {
            bindings::crypto_alloc_skcipher(
                name.as_char_ptr(),
                0,
                bindings::CRYPTO_ALG_ALLOCATES_MEMORY,
            )
        })?;

        // SAFETY: `tfm` is new.
        let mut this = unsafe { Self::from_raw(tfm)? };
        // SAFETY: `tfm` is a cipher.
        let reqsize = unsafe { bindings::crypto_skcipher_reqsize(tfm) };
        // SAFETY: As above.
        // INVARIANT: `is_async` is the property of the cipher.
        this.is_async = unsafe { bindings::crypto_skcipher_is_async(tfm) };
        // INVARIANT: The elements of the pool have room for the context of the cipher.
        this.pool = Some(RequestPool::new(reqsize)?);
        Ok(this)
    }

    /// Wraps a C cipher as a synchronous cipher.
    ///
    /// # Safety
    ///
    /// `tfm` must be a cipher that the caller owns and gives up. Unless the caller sets `pool`,
    /// it must be synchronous, and its context must have at most `MAX_SYNC_SKCIPHER_REQSIZE` bytes.
    unsafe fn from_raw(tfm: *mut bindings::crypto_skcipher) -> Result<Self> {
        // SAFETY: `tfm` is a cipher by this function's contract.
        let iv_size = unsafe { bindings::crypto_skcipher_ivsize(tfm) };
        // SAFETY: As above.
        let block_size = unsafe { bindings::crypto_skcipher_blocksize(tfm) };

        // INVARIANT: `tfm` is a new cipher, and the sizes are its own. The bound on `iv_size` holds
        // for every cipher that is returned. A power of two divides each larger one, and no other
        // block size has such a multiple. The other invariants hold by this function's contract.
        let this = Self {
            tfm: NonNull::new(tfm).ok_or(ENOENT)?,
            iv_size,
            // A block size of 0 would mean no restriction on the length.
            block_size: NonZeroU32::new(block_size).unwrap_or(NonZeroU32::MIN),
            min_sector_size: match block_size {
                0 => 1,
                size if size.is_power_of_two() => size,
                _ => u32::MAX,
            },
            is_async: false,
            pool: None,
        };
        if this.iv_size() > MAX_IV_SIZE {
            return Err(EINVAL);
        }
        Ok(this)
    }

    /// Returns the pool of request buffers, if requests do not fit on the stack.
    #[inline]
    pub(super) fn pool(&self) -> Option<&RequestPool<Head, bindings::skcipher_request>> {
        self.pool.as_ref()
    }

    /// Fails with [`EINVAL`] unless the lengths of the data and the initialisation vector fit the
    /// cipher.
    #[inline]
    pub(super) fn check(&self, data: &Data, iv: &[u8]) -> Result {
        let (_, _, len) = data.dst;

        if iv.len() != self.iv_size() || len == 0 || len % self.block_size != 0 {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Fails with [`EINVAL`] unless `len` bytes are one or more sectors of `sector_size` bytes, a
    /// power of two, and such a sector fits the cipher.
    #[inline]
    pub(super) fn check_sectors(&self, len: u32, sector_size: NonZeroU32) -> Result {
        let size = sector_size.get();
        // The lengths are powers of two, so the bits of this mask are the remainder of a division.
        let mask = size.wrapping_sub(1);

        if !size.is_power_of_two() || size < self.min_sector_size || len == 0 || len & mask != 0 {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Replaces the key.
    ///
    /// Fails with [`EINVAL`] if the cipher does not support keys of that length, and with the error
    /// of the cipher if it refuses the key. After a failure it has the old key or no key.
    ///
    /// Context: Process context. May sleep if the cipher does.
    pub fn set_key(&mut self, key: &[u8]) -> Result {
        let len = u32::try_from(key.len())?;

        // SAFETY:
        // - `tfm` is a cipher by the type invariants, and `&mut self` excludes other users.
        // - `key` is valid for reads of `len` bytes.
        to_result(unsafe { bindings::crypto_skcipher_setkey(self.tfm.as_ptr(), key.as_ptr(), len) })
    }

    /// Returns the size of the initialisation vector in bytes, or 0 if the cipher has none.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn iv_size(&self) -> usize {
        self.iv_size.into_safe_cast()
    }

    /// Returns the block size in bytes. The length of data must be a multiple of it.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn block_size(&self) -> usize {
        self.block_size.get().into_safe_cast()
    }

    /// Returns whether the cipher is asynchronous.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// Returns whether requests may sleep: the cipher is asynchronous, or its requests do not fit
    /// on the stack.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        self.pool.is_some()
    }

    /// Returns the name of the implementation, such as `xts-aes-vaes-avx2`.
    ///
    /// Context: Any context. Never sleeps.
    pub fn driver_name(&self) -> &CStr {
        // SAFETY: `tfm` is a cipher by the type invariants.
        let name = unsafe { bindings::crypto_skcipher_driver_name(self.tfm.as_ptr()) };

        // SAFETY: `name` is the C string `cra_driver_name` of the algorithm, which does not change.
        // `tfm` holds a reference to the algorithm while it lives (`crypto_destroy_tfm()` in
        // `crypto/api.c` drops it).
        unsafe { CStr::from_char_ptr(name) }
    }

    /// Returns a new [`Request`] for this cipher.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn request(&self) -> Request<'_> {
        Request::new(self)
    }
}

impl Drop for Skcipher {
    /// Wipes the key and frees the cipher.
    fn drop(&mut self) {
        // SAFETY: `tfm` is a cipher by the type invariants and not used again. No request uses it,
        // as each request borrows `self`.
        unsafe { bindings::crypto_free_skcipher(self.tfm.as_ptr()) };
    }
}
