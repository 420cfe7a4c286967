// SPDX-License-Identifier: GPL-2.0

//! Authenticated ciphers with a key.

use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    num::casts::FromSafeCast,
    prelude::*, //
};

use core::{
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    crypto::{
        request_buf::RequestPool,
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

/// The maximum size of a tag in a [`Request`], in bytes. It is the size of the longest digest.
pub const MAX_TAG_SIZE: usize = 64;

/// The maximum size of the associated data of a [`Request`], in bytes.
pub const MAX_ASSOCIATED_SIZE: usize = 64;

/// The maximum size of a key of an [`Aead`], in bytes. No cipher needs a longer one.
pub const MAX_KEY_SIZE: usize = 4096;

/// An authenticated cipher and its key.
///
/// # Invariants
///
/// - `tfm` came from a successful `crypto_alloc_aead()` and has not been freed.
/// - `is_async` is set unless `tfm` completes every request before the call returns.
/// - `iv_size` and `block_size` are those of `tfm`; `iv_size` is at most [`MAX_IV_SIZE`].
/// - `tag_size` is that of `tfm`, and at most [`MAX_TAG_SIZE`].
/// - The elements of `pool` have room for the context of `tfm`.
pub struct Aead {
    pub(super) tfm: NonNull<bindings::crypto_aead>,
    pub(super) is_async: bool,
    iv_size: u32,
    tag_size: u32,
    pub(super) block_size: NonZeroU32,
    pool: RequestPool<Head, bindings::aead_request>,
}

// SAFETY: A `crypto_aead` is not tied to the task that allocated it: any task may call
// `crypto_destroy_tfm()` in `crypto/api.c`.
unsafe impl Send for Aead {}

// SAFETY: `&self` only reads the C cipher: encryption and decryption do not modify it and may run
// in parallel (`struct aead_alg` in `include/crypto/aead.h`). Its key and the size of its tags only
// change through `&mut self`.
unsafe impl Sync for Aead {}

impl Aead {
    /// Returns the best implementation of `name`, such as `gcm(aes)`, without a key.
    ///
    /// A synchronous implementation is preferred to an asynchronous one, regardless of their
    /// priorities. The tag size is the maximum of the cipher.
    ///
    /// May load a module. Fails with [`ENOENT`] if there is no such cipher or `name` is empty.
    /// Fails with [`EINVAL`] if its initialisation vector is longer than [`MAX_IV_SIZE`] or its tag
    /// than [`MAX_TAG_SIZE`].
    ///
    /// Context: Process context. May sleep. Not for the I/O path: loading a module may wait for
    /// I/O.
    pub fn new(name: &CStr) -> Result<Self> {
        not_empty(name)?;
        let alloc = |mask| {
            // SAFETY: `name` is a C string.
            from_err_ptr(unsafe { bindings::crypto_alloc_aead(name.as_char_ptr(), 0, mask) })
        };
        let tfm = alloc(bindings::CRYPTO_ALG_ALLOCATES_MEMORY | bindings::CRYPTO_ALG_ASYNC)
            .or_else(|_| alloc(bindings::CRYPTO_ALG_ALLOCATES_MEMORY))?;
        let tfm = NonNull::new(tfm).ok_or(ENOENT)?;
        // The drop of `tfm` frees the cipher if a later step fails.
        let tfm = Tfm(tfm);

        let Sizes {
            iv,
            tag,
            block,
            request,
            is_async,
        } = tfm.sizes();
        if usize::from_safe_cast(iv) > MAX_IV_SIZE || usize::from_safe_cast(tag) > MAX_TAG_SIZE {
            return Err(EINVAL);
        }
        let pool = RequestPool::new(request)?;

        // INVARIANT: `tfm` is a new cipher. The sizes are its own and were checked, and the request
        // buffers were allocated for it.
        Ok(Self {
            tfm: tfm.into_raw(),
            is_async,
            iv_size: iv,
            tag_size: tag,
            // A block size of 0 would mean no restriction on the length.
            block_size: NonZeroU32::new(block).unwrap_or(NonZeroU32::MIN),
            pool,
        })
    }

    /// Replaces the key.
    ///
    /// `authenc(...)` takes its two keys in a single buffer, see [`AuthencKey`](super::AuthencKey).
    ///
    /// Fails with [`EINVAL`] if the cipher does not support keys of that length, and with the error
    /// of the cipher if it refuses the key. After a failure it has no key. A key of more than
    /// [`MAX_KEY_SIZE`] fails, too, and changes nothing.
    ///
    /// Context: Process context. May sleep if the cipher does.
    pub fn set_key(&mut self, key: &[u8]) -> Result {
        // `setkey_unaligned()` in `crypto/aead.c` copies the key before the cipher checks its
        // length. The copy of a long key is an allocation that fails with a warning.
        if key.len() > MAX_KEY_SIZE {
            return Err(EINVAL);
        }
        // CAST: At most `MAX_KEY_SIZE`.
        let len = key.len() as u32;

        // SAFETY:
        // - `tfm` is a cipher by the type invariants, and `&mut self` excludes other users.
        // - `key` is valid for reads of `len` bytes.
        to_result(unsafe { bindings::crypto_aead_setkey(self.tfm.as_ptr(), key.as_ptr(), len) })
    }

    /// Sets the size of the tags to `bytes`.
    ///
    /// Fails with [`EINVAL`], and does not change the size, if the cipher does not support it.
    ///
    /// Context: Process context. Never sleeps.
    pub fn set_tag_size(&mut self, bytes: usize) -> Result {
        let size = u32::try_from(bytes)?;

        if bytes > MAX_TAG_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: `tfm` is a cipher by the type invariants, and `&mut self` excludes other users.
        to_result(unsafe { bindings::crypto_aead_setauthsize(self.tfm.as_ptr(), size) })?;
        // INVARIANT: `crypto_aead_setauthsize()` set this size, and it was checked above.
        self.tag_size = size;
        Ok(())
    }

    /// Returns the length of a tag in bytes.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn tag_size(&self) -> usize {
        usize::from_safe_cast(self.tag_size)
    }

    /// Returns the size of the initialisation vector in bytes, or 0 if the cipher has none.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn iv_size(&self) -> usize {
        usize::from_safe_cast(self.iv_size)
    }

    /// Returns the block size in bytes. The length of data must be a multiple of it.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn block_size(&self) -> usize {
        usize::from_safe_cast(self.block_size.get())
    }

    /// Returns whether the cipher is asynchronous, so that a request may sleep.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// Returns the name of the implementation, such as `generic-gcm-aesni`.
    ///
    /// Context: Any context. Never sleeps.
    pub fn driver_name(&self) -> &CStr {
        // SAFETY: `tfm` is a cipher by the type invariants.
        let name = unsafe { bindings::crypto_aead_driver_name(self.tfm.as_ptr()) };

        // SAFETY: `name` is the C string `cra_driver_name` of the algorithm, which does not change.
        // `tfm` holds a reference to the algorithm while it lives (`crypto_destroy_tfm()` in
        // `crypto/api.c` drops it).
        unsafe { CStr::from_char_ptr(name) }
    }

    /// Allocates a [`Request`] for this cipher. Use it for a whole bio, to allocate only once.
    ///
    /// The cipher has a small reserve, and freed requests return to it. So an allocation that may
    /// sleep succeeds eventually, unless the caller holds another request.
    ///
    /// Fails with [`ENOMEM`] if there is no memory and `gfp` may not sleep. Fails with [`EINVAL`]
    /// for [`Gfp::ZERO`].
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    pub fn request(&self, gfp: Gfp) -> Result<Request<'_>> {
        Ok(Request::new(self, self.pool.alloc(gfp)?))
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
/// The cipher came from a successful `crypto_alloc_aead()`, and is not used after the drop.
struct Tfm(NonNull<bindings::crypto_aead>);

/// The properties of a cipher, with sizes in bytes.
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

        // SAFETY: `tfm` is a cipher by the type invariants.
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
        // SAFETY: `self.0` is a cipher by the type invariants, and not used again. No request uses
        // it, as each request borrows the `Aead`.
        unsafe { bindings::crypto_free_aead(self.0.as_ptr()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_aead_tfm)]
mod tests {
    use super::*;

    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    /// Returns the reference count of the implementation.
    fn references(cipher: &Aead) -> i32 {
        // SAFETY: The cipher exists, and holds a reference to its implementation.
        let count = unsafe { &raw mut (*(*cipher.tfm.as_ptr()).base.__crt_alg).cra_refcnt };
        // SAFETY: As above, and all accesses to the count are atomic.
        unsafe { Atomic::<i32>::from_ptr(&raw mut (*count).refs.counter) }.load(Relaxed)
    }

    /// C copies keys that are not aligned, if the cipher requires that.
    #[test]
    fn long_keys_are_refused() -> Result {
        let mut cipher = Aead::new(c"authenc(hmac(sha256),xts(camellia))")?;
        // More than `kmalloc()` can allocate.
        let keys = VVec::from_elem(1_u8, 8 << 20, GFP_KERNEL)?;

        for start in [0, 1] {
            for end in [MAX_KEY_SIZE + 1 + start, keys.len()] {
                let key = keys.get(start..end).ok_or(EINVAL)?;
                assert_eq!(cipher.set_key(key), Err(EINVAL));
            }
        }
        Ok(())
    }

    #[test]
    fn drop_frees_the_cipher() -> Result {
        let first = Aead::new(c"gcm(aes)")?;
        let before = references(&first);

        let second = Aead::new(c"gcm(aes)")?;
        assert_eq!(references(&first), before + 1);
        drop(second);
        assert_eq!(references(&first), before);
        Ok(())
    }
}
