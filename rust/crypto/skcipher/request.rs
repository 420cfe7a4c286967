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
    block::bio::{
        Segment,
        SegmentMut, //
    },
    crypto::{
        request_buf,
        secret::memzero_explicit, //
    },
    mm::gfp::Gfp, //
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

/// What a C request points to.
///
/// # Invariants
///
/// `src` and `dst` are tables of one entry, once [`Head::new()`] made them.
#[repr(C)]
pub(super) struct Head {
    src: bindings::scatterlist,
    dst: bindings::scatterlist,
    iv: Iv,
}

// SAFETY: Numbers, and structs of numbers.
unsafe impl request_buf::Head for Head {}

/// A request in memory of its own.
pub(super) type Frame<'t> = request_buf::Frame<'t, Head, bindings::skcipher_request>;

impl Head {
    /// Makes tables of one entry, as `sg_init_table()` in `lib/scatterlist.c` does.
    ///
    /// That takes a pointer: what it made would be copied to where it stays.
    #[inline]
    fn new() -> Self {
        let table = || bindings::scatterlist {
            page_link: bindings::SG_END,
            ..Default::default()
        };

        Self {
            src: table(),
            dst: table(),
            iv: Iv([0; MAX_IV_SIZE]),
        }
    }

    /// Points `request` to the data and to a copy of `iv`. No `src` means in place.
    ///
    /// # Safety
    ///
    /// - `request` must be valid, and the data segments that are still borrowed.
    /// - The tables must be initialised.
    #[inline]
    pub(super) unsafe fn set_crypt(
        &mut self,
        request: *mut bindings::skcipher_request,
        data: &Data,
        iv: &[u8],
    ) -> Result {
        let (page, offset, len) = data.dst;

        self.iv
            .0
            .get_mut(..iv.len())
            .ok_or(EINVAL)?
            .copy_from_slice(iv);

        // SAFETY: `dst` is an initialised table of one entry by the safety requirements, and `page`
        // is a page with `len` bytes at `offset` by the invariants of the segment it came from.
        unsafe { bindings::sg_set_page(&raw mut self.dst, page, len, offset) };

        let src = match data.src {
            None => &raw mut self.dst,
            Some((page, offset, src_len)) if src_len == len => {
                // SAFETY: As for `dst`.
                unsafe { bindings::sg_set_page(&raw mut self.src, page, len, offset) };
                &raw mut self.src
            }
            Some(_) => return Err(EINVAL),
        };

        // SAFETY: The request is valid by the safety requirements.
        unsafe {
            bindings::skcipher_request_set_crypt(
                request,
                src,
                &raw mut self.dst,
                len,
                self.iv.0.as_mut_ptr().cast(),
            )
        };
        Ok(())
    }
}

/// Page, offset and length of a segment.
type RawParts = (*mut bindings::page, u32, u32);

/// What is encrypted or decrypted; in place without a `src`.
pub(super) struct Data {
    pub(super) src: Option<RawParts>,
    pub(super) dst: RawParts,
}

/// What is done with the data.
pub(super) type Crypt = unsafe extern "C" fn(*mut bindings::skcipher_request) -> c_int;

/// One thread's use of a [`Skcipher`].
///
/// It is big (about 600 bytes), so keep it for a whole bio. Each call but writes five pointers and
/// the initialisation vector. It may be moved between calls: nothing points into it then.
///
/// The first call for a cipher that may finish later, or that needs more memory, allocates a request
/// that stays where it is. Every call waits until the cipher is done.
///
/// What the cipher left in it is wiped on drop.
///
/// # Invariants
///
/// - `on_stack.request` is initialised, and its `base.tfm` is that of `cipher`.
/// - The tables of `head` are initialised.
/// - If there is a `frame`, its request is initialised, has the cipher of `cipher`, and completes
///   the wait of `frame`; the tables of its head are initialised.
pub struct Request<'t> {
    cipher: &'t Skcipher,
    on_stack: OnStack,
    head: Head,
    frame: Option<Frame<'t>>,
}

impl<'t> Request<'t> {
    /// Sets a request up for `cipher`.
    #[inline]
    pub(super) fn new(cipher: &'t Skcipher) -> Self {
        // All bits zero are a valid value: no flags, no callback, no pointers.
        let mut request = MaybeUninit::<bindings::skcipher_request>::zeroed();
        // As `skcipher_request_set_tfm()` in `include/crypto/skcipher.h`.
        //
        // SAFETY: The request is valid for writes, and `tfm` is a cipher by its type invariants.
        unsafe {
            (*request.as_mut_ptr()).base.tfm = &raw mut (*cipher.tfm.as_ptr()).base;
        }

        // INVARIANT: Establishes the invariants; there is no frame.
        Self {
            cipher,
            on_stack: OnStack {
                request,
                context: MaybeUninit::uninit(),
            },
            head: Head::new(),
            frame: None,
        }
    }

    /// Encrypts `src` into `dst`.
    ///
    /// The two may be the same memory; if they overlap otherwise the result is garbage.
    ///
    /// Fails with [`EINVAL`] unless both have the same length, which is not 0 and a multiple of
    /// [`Skcipher::block_size`], and `iv` is [`Skcipher::iv_size`] bytes; with `ENOKEY` if the
    /// cipher has no key; with [`EDEADLK`] in a hard interrupt, and if [`Skcipher::is_async`] also
    /// in a softirq, and with those or interrupts off; with [`ENOMEM`] if the data is not aligned as
    /// the cipher needs it and there is no memory to copy it to, or if [`Skcipher::may_sleep`], it
    /// must not sleep, and there is no memory for the request. The contents of `dst` are undefined
    /// then.
    ///
    /// Context: Task or softirq. Sleeps if [`Skcipher::may_sleep`], and softirqs and interrupts are
    /// on.
    #[inline]
    pub fn encrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8]) -> Result {
        let data = Data {
            src: Some(src.as_raw_parts()),
            dst: dst.as_raw_parts(),
        };

        // SAFETY: The caller lent us the segments.
        unsafe { self.crypt(&data, iv, bindings::crypto_skcipher_encrypt)? };
        dst.note_filled();
        Ok(())
    }

    /// Decrypts `src` into `dst`. The inverse of [`Self::encrypt`], with the same conditions.
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn decrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8]) -> Result {
        let data = Data {
            src: Some(src.as_raw_parts()),
            dst: dst.as_raw_parts(),
        };

        // SAFETY: The caller lent us the segments.
        unsafe { self.crypt(&data, iv, bindings::crypto_skcipher_decrypt)? };
        dst.note_filled();
        Ok(())
    }

    /// Encrypts `data` in place. Otherwise as [`Self::encrypt`].
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn encrypt_in_place(&mut self, data: SegmentMut<'_>, iv: &[u8]) -> Result {
        let data = Data {
            src: None,
            dst: data.as_raw_parts(),
        };

        // SAFETY: The caller lent us the segment.
        unsafe { self.crypt(&data, iv, bindings::crypto_skcipher_encrypt) }
    }

    /// Decrypts `data` in place. Otherwise as [`Self::encrypt`].
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn decrypt_in_place(&mut self, data: SegmentMut<'_>, iv: &[u8]) -> Result {
        let data = Data {
            src: None,
            dst: data.as_raw_parts(),
        };

        // SAFETY: The caller lent us the segment.
        unsafe { self.crypt(&data, iv, bindings::crypto_skcipher_decrypt) }
    }

    /// Runs the request on the data.
    ///
    /// # Safety
    ///
    /// The segments that `data` is made of must be borrowed until this returns.
    #[inline]
    pub(super) unsafe fn crypt(&mut self, data: &Data, iv: &[u8], crypt: Crypt) -> Result {
        self.cipher.check(data, iv)?;
        if let Some(frames) = self.cipher.frames() {
            // SAFETY: By the safety requirements.
            return unsafe { self.crypt_in_frame(frames, data, iv, crypt) };
        }
        // The FPU state of interrupted code would be lost, see `irq_fpu_usable()` on x86.
        //
        // SAFETY: Reads a counter of this CPU.
        if unsafe { bindings::in_hardirq() } {
            return Err(EDEADLK);
        }

        let request = self.on_stack.request.as_mut_ptr();
        // SAFETY: The request and the tables are initialised by the type invariants; the data is by
        // the safety requirements.
        unsafe { self.head.set_crypt(request, data, iv)? };
        // SAFETY:
        // - The request has a cipher by the type invariants; source, destination and
        //   initialisation vector are set and live, see above.
        // - The cipher has no frames, so by its type invariants it is synchronous, and nothing is used
        //   after the call returns, and its context has at most `MAX_SYNC_SKCIPHER_REQSIZE` bytes, so
        //   it fits.
        match unsafe { crypt((&raw mut self.on_stack).cast()) } {
            0 => Ok(()),
            error => to_result(error),
        }
    }

    /// As [`Self::crypt()`], but in memory that a driver may use for longer, and waits for it.
    ///
    /// # Safety
    ///
    /// As for [`Self::crypt()`].
    #[cold]
    #[inline(never)]
    unsafe fn crypt_in_frame(
        &mut self,
        frames: &'t request_buf::Frames<Head, bindings::skcipher_request>,
        data: &Data,
        iv: &[u8],
        crypt: Crypt,
    ) -> Result {
        let frame = match &mut self.frame {
            Some(frame) => frame,
            none => none.insert(new_frame(self.cipher, frames.alloc(Gfp::noio_or_atomic())?)),
        };
        let request = frame.request();

        // SAFETY: The request and the tables are initialised by the type invariants; the data is by
        // the safety requirements.
        unsafe { frame.head().set_crypt(request, data, iv)? };
        // SAFETY:
        // - The request has a cipher by the type invariants; source, destination and
        //   initialisation vector are set and live until this returns, and the frame has room for
        //   the context by the type invariants of `Skcipher`.
        // - The callback is set, see `new_frame()`.
        unsafe { frame.run(self.cipher.is_async, crypt) }
    }
}

/// Sets the request of `frame` up for `cipher`.
pub(super) fn new_frame<'t>(cipher: &Skcipher, mut frame: Frame<'t>) -> Frame<'t> {
    let (request, wait) = (frame.request(), frame.wait());

    // SAFETY: `tfm` is a cipher by its type invariants; the request is valid for writes, and
    // zeros are a valid value.
    unsafe { bindings::skcipher_request_set_tfm(request, cipher.tfm.as_ptr()) };
    // SAFETY: As above; the callback takes a `crypto_wait`.
    unsafe {
        bindings::skcipher_request_set_callback(
            request,
            bindings::CRYPTO_TFM_REQ_MAY_BACKLOG,
            Some(bindings::crypto_req_done),
            wait.cast(),
        )
    };
    *frame.head() = Head::new();
    frame
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        // With frames, nothing was done on the stack, and there is no room for the context.
        if self.cipher.frames().is_none() {
            // SAFETY: The request has a cipher by the type invariants, and memory for its context
            // behind it: see `crypt()`.
            unsafe { bindings::skcipher_request_zero((&raw mut self.on_stack).cast()) };
        }
        memzero_explicit(&mut self.head.iv.0);
    }
}
