// SPDX-License-Identifier: GPL-2.0

//! Ciphers with a key.

use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};

use core::{
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    crypto::request_buf::Frames, //
};

use super::{
    request::{
        Data,
        Head, //
    },
    Request,
    MAX_IV_SIZE, //
};

/// Returns [`ENOENT`] for an empty name of an algorithm.
///
/// Not so C: what anybody is looking up has no name for its driver yet, so it is found for that
/// (`__crypto_alg_lookup()` in `crypto/api.c`).
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
/// - If there are `frames`, they have room for the context of `tfm`. If there are none, `tfm` is
///   synchronous, and its context has at most `MAX_SYNC_SKCIPHER_REQSIZE` bytes.
/// - `is_async` is set unless `tfm` finishes every request before the call returns.
pub struct Skcipher {
    pub(super) tfm: NonNull<bindings::crypto_skcipher>,
    iv_size: u32,
    block_size: NonZeroU32,
    pub(super) is_async: bool,
    frames: Option<Frames<Head, bindings::skcipher_request>>,
}

// SAFETY: A `crypto_skcipher` is not tied to the task that allocated it: `crypto_destroy_tfm()` in
// `crypto/api.c` may be called by any task.
unsafe impl Send for Skcipher {}

// SAFETY: Through `&self` the C cipher is only read: encryption and decryption do not modify it and
// may run in parallel (`struct skcipher_alg` in `include/crypto/skcipher.h`); its key changes
// through `&mut self` only.
unsafe impl Sync for Skcipher {}

impl Skcipher {
    /// Returns the best implementation of `name`, such as `xts(aes)`, without a key.
    ///
    /// One that finishes requests at once, with little memory, is preferred to one that does not,
    /// whatever their priorities.
    ///
    /// May load a module. Fails with [`ENOENT`] if there is no such cipher or `name` is empty, and with
    /// [`EINVAL`] if its initialisation vector is longer than [`MAX_IV_SIZE`].
    ///
    /// Context: Task. Sleeps. Not for the I/O path: loading a module may wait for it.
    pub fn new(name: &CStr) -> Result<Self> {
        not_empty(name)?;
        match Self::new_sync(name) {
            Err(error) if error != ENOMEM => Self::new_any(name),
            result => result,
        }
    }

    /// As [`Self::new()`], but only what a request on a stack will do for. Fails with [`EINVAL`] if
    /// the context of the cipher is too large for that.
    ///
    /// `crypto_alloc_sync_skcipher()` in `crypto/skcipher.c` does the same, but it warns of such a
    /// context, which a name may ask for: `essiv()` of `essiv()`, a few times.
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

        // SAFETY: It is new. It is synchronous, as an algorithm with a flag that the mask has, and the
        // type has not, is not chosen; and its context is as small as the check says.
        unsafe { Self::from_raw(tfm) }
    }

    /// As [`Self::new()`], but the best of all.
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

        // SAFETY: It is new.
        let mut this = unsafe { Self::from_raw(tfm)? };
        // SAFETY: `tfm` is a cipher.
        let reqsize = unsafe { bindings::crypto_skcipher_reqsize(tfm) };
        // SAFETY: As above.
        // INVARIANT: That is what it says of itself.
        this.is_async = unsafe { bindings::crypto_skcipher_is_async(tfm) };
        // INVARIANT: They are made for the cipher.
        this.frames = Some(Frames::new(reqsize)?);
        Ok(this)
    }

    /// Takes a cipher from C, as a synchronous one.
    ///
    /// # Safety
    ///
    /// `tfm` must be a cipher that the caller gives away. Unless the caller sets `frames`, it must
    /// be synchronous, and its context have at most `MAX_SYNC_SKCIPHER_REQSIZE` bytes.
    unsafe fn from_raw(tfm: *mut bindings::crypto_skcipher) -> Result<Self> {
        // SAFETY: `tfm` is a cipher by the safety requirements.
        let iv_size = unsafe { bindings::crypto_skcipher_ivsize(tfm) };
        // SAFETY: As above.
        let block_size = unsafe { bindings::crypto_skcipher_blocksize(tfm) };

        // INVARIANT: `tfm` is a new cipher, and the sizes are its own; the bound on `iv_size` holds
        // for every cipher that is returned. The rest is by the safety requirements.
        let this = Self {
            tfm: NonNull::new(tfm).ok_or(ENOENT)?,
            iv_size,
            // A block of no bytes, if there were such a cipher, would bound nothing.
            block_size: NonZeroU32::new(block_size).unwrap_or(NonZeroU32::MIN),
            is_async: false,
            frames: None,
        };
        if this.iv_size() > MAX_IV_SIZE {
            return Err(EINVAL);
        }
        Ok(this)
    }

    /// Returns where requests come from, if a stack will not do for them.
    #[inline]
    pub(super) fn frames(&self) -> Option<&Frames<Head, bindings::skcipher_request>> {
        self.frames.as_ref()
    }

    /// Fails with [`EINVAL`] unless data and vector are as long as the cipher needs it.
    #[inline]
    pub(super) fn check(&self, data: &Data, iv: &[u8]) -> Result {
        let (_, _, len) = data.dst;

        if iv.len() != self.iv_size() || len == 0 || len % self.block_size != 0 {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Replaces the key.
    ///
    /// Fails with [`EINVAL`] if the cipher does not take keys of that length, and with what the
    /// cipher returns if it refuses the key. After a failure it has the old key or none at all.
    ///
    /// Context: Task. Whether it sleeps is up to the cipher.
    pub fn set_key(&mut self, key: &[u8]) -> Result {
        let len = u32::try_from(key.len())?;

        // SAFETY:
        // - `tfm` is a cipher by the type invariants, and `&mut self` keeps other users out.
        // - `key` is valid for reads of `len` bytes.
        to_result(unsafe { bindings::crypto_skcipher_setkey(self.tfm.as_ptr(), key.as_ptr(), len) })
    }

    /// Returns the length of the initialisation vector in bytes, 0 if the cipher takes none.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn iv_size(&self) -> usize {
        self.iv_size as usize
    }

    /// Returns what the length of data must be a multiple of, in bytes.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn block_size(&self) -> usize {
        self.block_size.get() as usize
    }

    /// Returns whether the cipher may finish requests later.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// Returns whether using the cipher may sleep: it may finish requests later, or it needs more
    /// memory for one than there is on a stack.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        self.frames.is_some()
    }

    /// Returns the name of the implementation, such as `xts-aes-vaes-avx2`.
    ///
    /// Context: Any. Never sleeps.
    pub fn driver_name(&self) -> &CStr {
        // SAFETY: `tfm` is a cipher by the type invariants.
        let name = unsafe { bindings::crypto_skcipher_driver_name(self.tfm.as_ptr()) };

        // SAFETY: `name` is the C string `cra_driver_name` of the algorithm, which does not change
        // and which `tfm` holds a reference to for as long as it lives (`crypto_destroy_tfm()` in
        // `crypto/api.c` drops it).
        unsafe { CStr::from_char_ptr(name) }
    }

    /// Returns a new [`Request`] for this cipher.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn request(&self) -> Request<'_> {
        Request::new(self)
    }
}

impl Drop for Skcipher {
    /// Wipes the key and frees the cipher.
    fn drop(&mut self) {
        // SAFETY: `tfm` is a cipher by the type invariants and not used again. No request uses it
        // either, as each borrows `self`.
        unsafe { bindings::crypto_free_skcipher(self.tfm.as_ptr()) };
    }
}
