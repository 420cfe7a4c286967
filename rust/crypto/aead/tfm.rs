// SPDX-License-Identifier: GPL-2.0

//! Authenticated ciphers with a key.

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
    crypto::{
        request_buf::Frames,
        skcipher::{
            not_empty,
            MAX_IV_SIZE, //
        }, //
    },
    mm::gfp::Gfp, //
};

use super::{
    request::Head,
    Request, //
};

/// The longest tag that a [`Request`] has room for, in bytes: that of the longest digest.
pub const MAX_TAG_SIZE: usize = 64;

/// The most associated data that a [`Request`] has room for, in bytes.
pub const MAX_ASSOCIATED_SIZE: usize = 64;

/// An authenticated cipher and its key.
///
/// # Invariants
///
/// - `tfm` came from a successful `crypto_alloc_aead()` and has not been freed.
/// - `is_async` is set unless `tfm` finishes every request before the call returns.
/// - `iv_size` and `block_size` are those of `tfm`; `iv_size` is at most [`MAX_IV_SIZE`].
/// - `tag_size` is that of `tfm`, and at most [`MAX_TAG_SIZE`].
/// - `frames` have room for the context of `tfm`.
pub struct Aead {
    pub(super) tfm: NonNull<bindings::crypto_aead>,
    pub(super) is_async: bool,
    iv_size: u32,
    tag_size: u32,
    pub(super) block_size: NonZeroU32,
    frames: Frames<Head, bindings::aead_request>,
}

// SAFETY: A `crypto_aead` is not tied to the task that allocated it: `crypto_destroy_tfm()` in
// `crypto/api.c` may be called by any task.
unsafe impl Send for Aead {}

// SAFETY: Through `&self` the C cipher is only read: encryption and decryption do not modify it and
// may run in parallel (`struct aead_alg` in `include/crypto/aead.h`); its key and the size of its
// tags change through `&mut self` only.
unsafe impl Sync for Aead {}

impl Aead {
    /// Returns the best implementation of `name`, such as `gcm(aes)`, without a key.
    ///
    /// One that finishes requests at once is preferred to one that does not, whatever their
    /// priorities. Tags are as long as the cipher can make them.
    ///
    /// May load a module. Fails with [`ENOENT`] if there is no such cipher or `name` is empty, and with
    /// [`EINVAL`] if its initialisation vector is longer than [`MAX_IV_SIZE`] or its tag than
    /// [`MAX_TAG_SIZE`].
    ///
    /// Context: Task. Sleeps. Not for the I/O path: loading a module may wait for it.
    pub fn new(name: &CStr) -> Result<Self> {
        not_empty(name)?;
        let alloc = |mask| {
            // SAFETY: `name` is a C string.
            from_err_ptr(unsafe { bindings::crypto_alloc_aead(name.as_char_ptr(), 0, mask) })
        };
        let tfm = alloc(bindings::CRYPTO_ALG_ALLOCATES_MEMORY | bindings::CRYPTO_ALG_ASYNC)
            .or_else(|_| alloc(bindings::CRYPTO_ALG_ALLOCATES_MEMORY))?;
        let tfm = NonNull::new(tfm).ok_or(ENOENT)?;
        // From here on it is freed, whatever happens.
        let tfm = Tfm(tfm);

        let Sizes {
            iv,
            tag,
            block,
            request,
            is_async,
        } = tfm.sizes();
        // CAST: From 32 to 64 bits.
        if iv as usize > MAX_IV_SIZE || tag as usize > MAX_TAG_SIZE {
            return Err(EINVAL);
        }
        let frames = Frames::new(request)?;

        // INVARIANT: `tfm` is a new cipher, the sizes are its own and were checked, and the frames
        // were made for it.
        Ok(Self {
            tfm: tfm.into_raw(),
            is_async,
            iv_size: iv,
            tag_size: tag,
            // A block of no bytes, if there were such a cipher, would bound nothing.
            block_size: NonZeroU32::new(block).unwrap_or(NonZeroU32::MIN),
            frames,
        })
    }

    /// Replaces the key.
    ///
    /// `authenc(...)` takes its two keys in one piece, see [`AuthencKey`](super::AuthencKey).
    ///
    /// Fails with [`EINVAL`] if the cipher does not take keys of that length, and with what the
    /// cipher returns if it refuses the key. After a failure it has no key.
    ///
    /// Context: Task. Whether it sleeps is up to the cipher.
    pub fn set_key(&mut self, key: &[u8]) -> Result {
        let len = u32::try_from(key.len())?;

        // SAFETY:
        // - `tfm` is a cipher by the type invariants, and `&mut self` keeps other users out.
        // - `key` is valid for reads of `len` bytes.
        to_result(unsafe { bindings::crypto_aead_setkey(self.tfm.as_ptr(), key.as_ptr(), len) })
    }

    /// Makes tags `bytes` long.
    ///
    /// Fails with [`EINVAL`], and leaves tags as they were, if the cipher does not make such tags.
    ///
    /// Context: Task. Never sleeps.
    pub fn set_tag_size(&mut self, bytes: usize) -> Result {
        let size = u32::try_from(bytes)?;

        if bytes > MAX_TAG_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: `tfm` is a cipher by the type invariants, and `&mut self` keeps other users out.
        to_result(unsafe { bindings::crypto_aead_setauthsize(self.tfm.as_ptr(), size) })?;
        // INVARIANT: Set just now, and checked above.
        self.tag_size = size;
        Ok(())
    }

    /// Returns the length of a tag in bytes.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn tag_size(&self) -> usize {
        self.tag_size as usize
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

    /// Returns whether the cipher may finish requests later, so that using it may sleep.
    ///
    /// Context: Any. Never sleeps.
    #[inline]
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// Returns the name of the implementation, such as `generic-gcm-aesni`.
    ///
    /// Context: Any. Never sleeps.
    pub fn driver_name(&self) -> &CStr {
        // SAFETY: `tfm` is a cipher by the type invariants.
        let name = unsafe { bindings::crypto_aead_driver_name(self.tfm.as_ptr()) };

        // SAFETY: `name` is the C string `cra_driver_name` of the algorithm, which does not change
        // and which `tfm` holds a reference to for as long as it lives (`crypto_destroy_tfm()` in
        // `crypto/api.c` drops it).
        unsafe { CStr::from_char_ptr(name) }
    }

    /// Returns a new [`Request`] for this cipher: one allocation, so keep it for a whole bio.
    ///
    /// There are a few in reserve, and requests of the same cipher come back, so who may sleep gets
    /// one in the end, unless he has another in hand.
    ///
    /// Fails with [`ENOMEM`] if there is no memory and `gfp` may not sleep, and with [`EINVAL`]
    /// for [`Gfp::ZERO`].
    ///
    /// Context: Any but NMI. Sleeps if `gfp` allows it.
    pub fn request(&self, gfp: Gfp) -> Result<Request<'_>> {
        Ok(Request::new(self, self.frames.alloc(gfp)?))
    }
}

impl Drop for Aead {
    /// Wipes the key and frees the cipher.
    fn drop(&mut self) {
        drop(Tfm(self.tfm));
    }
}

/// A cipher that is freed on drop.
///
/// # Invariants
///
/// It came from a successful `crypto_alloc_aead()`, and nobody uses it after the drop.
struct Tfm(NonNull<bindings::crypto_aead>);

/// What a cipher says of itself, in bytes.
struct Sizes {
    iv: u32,
    tag: u32,
    block: u32,
    request: u32,
    is_async: bool,
}

impl Tfm {
    fn sizes(&self) -> Sizes {
        let tfm = self.0.as_ptr();

        // SAFETY: It is a cipher by the type invariants.
        unsafe {
            Sizes {
                iv: bindings::crypto_aead_ivsize(tfm),
                tag: bindings::crypto_aead_authsize(tfm),
                block: bindings::crypto_aead_blocksize(tfm),
                request: bindings::crypto_aead_reqsize(tfm),
                is_async: bindings::crypto_aead_is_async(tfm),
            }
        }
    }

    /// Gives up the ownership.
    fn into_raw(self) -> NonNull<bindings::crypto_aead> {
        let tfm = self.0;
        core::mem::forget(self);
        tfm
    }
}

impl Drop for Tfm {
    fn drop(&mut self) {
        // SAFETY: It is a cipher by the type invariants, and not used again. No request uses it
        // either, as each borrows the `Aead`.
        unsafe { bindings::crypto_free_aead(self.0.as_ptr()) };
    }
}
