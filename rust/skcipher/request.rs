// SPDX-License-Identifier: GPL-2.0

//! One thread's use of a cipher.

use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

use core::mem::{
    offset_of,
    size_of,
    MaybeUninit, //
};

use crate::{
    bindings,
    bio::{
        Segment,
        SegmentMut, //
    },
    key::memzero_explicit, //
};

use super::Skcipher;

/// The longest initialisation vector that a [`Request`] has room for, in bytes.
///
/// No cipher of the kernel has a longer one.
pub const MAX_IV_SIZE: usize = 32;

/// A C request and the memory behind it that belongs to the cipher.
#[repr(C)]
struct OnStack {
    request: MaybeUninit<bindings::skcipher_request>,
    /// `skcipher_request::__ctx`. Written by the cipher before it reads it.
    context: MaybeUninit<[u8; bindings::MAX_SYNC_SKCIPHER_REQSIZE as usize]>,
}

// `SYNC_SKCIPHER_REQUEST_ON_STACK()` in `include/crypto/skcipher.h` has no gap here either.
const _: () = assert!(offset_of!(OnStack, context) == size_of::<bindings::skcipher_request>());

/// A copy of an initialisation vector, which ciphers overwrite. Aligned as most of them like it:
/// `skcipher_walk_first()` in `crypto/skcipher.c` copies it to new memory otherwise.
#[repr(C, align(16))]
struct Iv([u8; MAX_IV_SIZE]);

/// One thread's use of a [`Skcipher`].
///
/// It is big (about 600 bytes), so keep it for a whole bio. Each call but writes five pointers and
/// the initialisation vector. It may be moved between calls: nothing points into it then.
///
/// What the cipher left in it is wiped on drop.
///
/// # Invariants
///
/// - `on_stack.request` is initialised, and its `base.tfm` is that of `cipher`.
/// - `src` and `dst` are tables of one entry, initialised by `sg_init_table()`.
pub struct Request<'t> {
    cipher: &'t Skcipher,
    on_stack: OnStack,
    src: MaybeUninit<bindings::scatterlist>,
    dst: MaybeUninit<bindings::scatterlist>,
    iv: Iv,
}

impl<'t> Request<'t> {
    /// Sets a request up for `cipher`.
    #[inline]
    pub(super) fn new(cipher: &'t Skcipher) -> Self {
        let mut this = Self {
            cipher,
            on_stack: OnStack {
                // All bits zero are a valid value: no flags, no callback, no pointers.
                request: MaybeUninit::zeroed(),
                context: MaybeUninit::uninit(),
            },
            src: MaybeUninit::uninit(),
            dst: MaybeUninit::uninit(),
            iv: Iv([0; MAX_IV_SIZE]),
        };

        // INVARIANT: Establishes both invariants, line by line.
        // SAFETY: The request is valid for writes, and `tfm` is a cipher by its type invariants.
        unsafe {
            bindings::skcipher_request_set_tfm(
                this.on_stack.request.as_mut_ptr(),
                cipher.tfm.as_ptr(),
            )
        };
        for sg in [&mut this.src, &mut this.dst] {
            // SAFETY: `sg` is valid for writes of one entry.
            unsafe { bindings::sg_init_table(sg.as_mut_ptr(), 1) };
        }
        this
    }

    /// Encrypts `src` into `dst`.
    ///
    /// The two may be the same memory; if they overlap otherwise the result is garbage.
    ///
    /// Fails with [`EINVAL`] unless both have the same length, which is not 0 and a multiple of
    /// [`Skcipher::block_size`], and `iv` is [`Skcipher::iv_size`] bytes; with `ENOKEY` if the
    /// cipher has no key; with [`EDEADLK`] in a hard interrupt; with [`ENOMEM`] if the data is not
    /// aligned as the cipher needs it and there is no memory to copy it to. The contents of `dst`
    /// are undefined then.
    ///
    /// Context: Task or softirq. Never sleeps.
    #[inline]
    pub fn encrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8]) -> Result {
        let (src, dst) = (src.as_raw_parts(), dst.as_raw_parts());

        self.set_crypt(Some(src), dst, iv)?;
        // SAFETY: `set_crypt()` succeeded just now, and the caller lent us the segments.
        unsafe { self.call(bindings::crypto_skcipher_encrypt) }
    }

    /// Decrypts `src` into `dst`. The inverse of [`Self::encrypt`], with the same conditions.
    ///
    /// Context: Task or softirq. Never sleeps.
    #[inline]
    pub fn decrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8]) -> Result {
        let (src, dst) = (src.as_raw_parts(), dst.as_raw_parts());

        self.set_crypt(Some(src), dst, iv)?;
        // SAFETY: `set_crypt()` succeeded just now, and the caller lent us the segments.
        unsafe { self.call(bindings::crypto_skcipher_decrypt) }
    }

    /// Encrypts `data` in place. Otherwise as [`Self::encrypt`].
    ///
    /// Context: Task or softirq. Never sleeps.
    #[inline]
    pub fn encrypt_in_place(&mut self, data: SegmentMut<'_>, iv: &[u8]) -> Result {
        self.set_crypt(None, data.as_raw_parts(), iv)?;
        // SAFETY: `set_crypt()` succeeded just now, and the caller lent us the segments.
        unsafe { self.call(bindings::crypto_skcipher_encrypt) }
    }

    /// Decrypts `data` in place. Otherwise as [`Self::encrypt`].
    ///
    /// Context: Task or softirq. Never sleeps.
    #[inline]
    pub fn decrypt_in_place(&mut self, data: SegmentMut<'_>, iv: &[u8]) -> Result {
        self.set_crypt(None, data.as_raw_parts(), iv)?;
        // SAFETY: `set_crypt()` succeeded just now, and the caller lent us the segments.
        unsafe { self.call(bindings::crypto_skcipher_decrypt) }
    }

    /// Points the request to the data and to a copy of `iv`.
    ///
    /// No `src` means in place.
    #[inline]
    fn set_crypt(&mut self, src: Option<RawParts>, dst: RawParts, iv: &[u8]) -> Result {
        let (page, offset, len) = dst;

        if iv.len() != self.cipher.iv_size() || len == 0 || len % self.cipher.block_size != 0 {
            return Err(EINVAL);
        }
        self.iv
            .0
            .get_mut(..iv.len())
            .ok_or(EINVAL)?
            .copy_from_slice(iv);

        // SAFETY: `dst` is an initialised table of one entry by the type invariants, and `page` is
        // a page with `len` bytes at `offset` by the invariants of the segment it came from.
        unsafe { bindings::sg_set_page(self.dst.as_mut_ptr(), page, len, offset) };

        let src = match src {
            None => self.dst.as_mut_ptr(),
            Some((page, offset, src_len)) if src_len == len => {
                // SAFETY: As for `dst`.
                unsafe { bindings::sg_set_page(self.src.as_mut_ptr(), page, len, offset) };
                self.src.as_mut_ptr()
            }
            Some(_) => return Err(EINVAL),
        };

        // SAFETY: The request is initialised by the type invariants.
        unsafe {
            bindings::skcipher_request_set_crypt(
                self.on_stack.request.as_mut_ptr(),
                src,
                self.dst.as_mut_ptr(),
                len,
                self.iv.0.as_mut_ptr().cast(),
            )
        };
        Ok(())
    }

    /// Runs the request.
    ///
    /// # Safety
    ///
    /// `set_crypt()` succeeded, neither the request nor the segments have moved since, and the
    /// segments are still borrowed by the caller.
    #[inline]
    unsafe fn call(
        &mut self,
        crypt: unsafe extern "C" fn(*mut bindings::skcipher_request) -> c_int,
    ) -> Result {
        // The FPU state of interrupted code would be lost, see `irq_fpu_usable()` on x86.
        //
        // SAFETY: Reads a counter of this CPU.
        if unsafe { bindings::in_hardirq() } {
            return Err(EDEADLK);
        }

        // SAFETY:
        // - The request has a cipher by the type invariants; source, destination and
        //   initialisation vector are set and live, by the contract of this function.
        // - The cipher is synchronous, so nothing is used after the call returns.
        // - Its context fits: `crypto_alloc_sync_skcipher()` in `crypto/skcipher.c` refuses
        //   ciphers that need more than `MAX_SYNC_SKCIPHER_REQSIZE`.
        match unsafe { crypt((&raw mut self.on_stack).cast()) } {
            0 => Ok(()),
            error => to_result(error),
        }
    }
}

/// Page, offset and length of a segment.
type RawParts = (*mut bindings::page, u32, u32);

impl Drop for Request<'_> {
    fn drop(&mut self) {
        // SAFETY: The request has a cipher by the type invariants, and memory for its context
        // behind it: see `call()`.
        unsafe { bindings::skcipher_request_zero((&raw mut self.on_stack).cast()) };
        memzero_explicit(&mut self.iv.0);
    }
}
