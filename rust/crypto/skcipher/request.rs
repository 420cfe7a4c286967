// SPDX-License-Identifier: GPL-2.0

//! Requests of a cipher.

use kernel::{
    error::to_result,
    ffi::c_int,
    num::casts::IntoSafeCast,
    prelude::*, //
};

use core::{
    mem::{
        offset_of,
        size_of,
        MaybeUninit, //
    },
    num::NonZeroU32, //
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

/// The maximum size of the initialisation vector of a [`Request`], in bytes.
///
/// No cipher of the kernel has a longer one.
pub const MAX_IV_SIZE: usize = 32;

/// A C request, followed by the context of the cipher.
#[repr(C)]
struct OnStack {
    request: MaybeUninit<bindings::skcipher_request>,
    /// `skcipher_request::__ctx`. The cipher writes it before it reads it.
    context: MaybeUninit<[u8; bindings::MAX_SYNC_SKCIPHER_REQSIZE as usize]>,
}

// `SYNC_SKCIPHER_REQUEST_ON_STACK()` in `include/crypto/skcipher.h` has no gap here, either.
const _: () = assert!(offset_of!(OnStack, context) == size_of::<bindings::skcipher_request>());

/// A copy of an initialisation vector, which ciphers overwrite. The alignment suits most ciphers:
/// otherwise `skcipher_walk_first()` in `crypto/skcipher.c` copies the vector to new memory.
#[derive(Zeroable)]
#[repr(C, align(16))]
struct Iv([u8; MAX_IV_SIZE]);

/// The memory that a C request points to.
///
/// # Invariants
///
/// `src` and `dst` are tables with a single entry after [`Head::new()`].
#[derive(Zeroable)]
#[repr(C)]
pub(super) struct Head {
    src: bindings::scatterlist,
    dst: bindings::scatterlist,
    iv: Iv,
}

/// A request in its own allocation.
pub(super) type RequestBuf<'t> = request_buf::RequestBuf<'t, Head, bindings::skcipher_request>;

impl Head {
    /// Makes tables with a single entry, as `sg_init_table()` in `lib/scatterlist.c` does.
    ///
    /// `sg_init_table()` takes a pointer, so its table would have to be copied to its final place.
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

    /// Points `request` to the data and to a copy of `iv`. Without `src`, the operation is in
    /// place.
    ///
    /// # Safety
    ///
    /// - `request` must be valid, and `data` must be the parts of segments that are still borrowed.
    /// - The tables must be initialised.
    #[inline]
    pub(super) unsafe fn set_crypt(
        &mut self,
        request: *mut bindings::skcipher_request,
        data: &Data,
        iv: &[u8],
    ) -> Result {
        self.iv
            .0
            .get_mut(..iv.len())
            .ok_or(EINVAL)?
            .copy_from_slice(iv);
        // SAFETY: By this function's contract.
        unsafe { Self::set_data(self, request, data) }
    }

    /// As [`Self::set_crypt()`], but keeps the initialisation vector.
    ///
    /// The request then has pointers that are derived from `this`.
    ///
    /// # Safety
    ///
    /// As for [`Self::set_crypt()`], and `this` must be valid.
    #[inline]
    unsafe fn set_data(
        this: *mut Self,
        request: *mut bindings::skcipher_request,
        data: &Data,
    ) -> Result {
        let (page, offset, len) = data.dst;
        // SAFETY: `this` is valid by this function's contract.
        let (src_table, dst_table, iv) = unsafe {
            (
                &raw mut (*this).src,
                &raw mut (*this).dst,
                &raw mut (*this).iv.0,
            )
        };

        // SAFETY: `dst` is an initialised table with a single entry by this function's contract.
        // `page` is a page with `len` bytes at `offset`, by the invariants of its segment.
        unsafe { bindings::sg_set_page(dst_table, page, len, offset) };

        let src = match data.src {
            None => dst_table,
            Some((page, offset, src_len)) if src_len == len => {
                // SAFETY: As for `dst`.
                unsafe { bindings::sg_set_page(src_table, page, len, offset) };
                src_table
            }
            Some(_) => return Err(EINVAL),
        };

        // SAFETY: The request is valid by this function's contract.
        unsafe { bindings::skcipher_request_set_crypt(request, src, dst_table, len, iv.cast()) };
        Ok(())
    }
}

/// Page, offset and length of a segment.
type RawParts = (*mut bindings::page, u32, u32);

/// The data of an operation, which is in place without a `src`.
pub(super) struct Data {
    pub(super) src: Option<RawParts>,
    pub(super) dst: RawParts,
}

impl Data {
    /// Returns the `len` bytes at `start`. They must be in the data.
    #[inline]
    fn part(&self, start: u32, len: u32) -> Self {
        // OVERFLOW: The offsets of bytes of a segment are at most `PAGE_SIZE`.
        let part = |(page, offset, _): RawParts| (page, offset.wrapping_add(start), len);

        Self {
            src: self.src.map(part),
            dst: part(self.dst),
        }
    }
}

/// The C function of the operation.
pub(super) type Crypt = unsafe extern "C" fn(*mut bindings::skcipher_request) -> c_int;

/// A request of a [`Skcipher`], for a single thread.
///
/// It is large (about 600 bytes), so use it for a whole bio. Each call only writes five pointers
/// and the initialisation vector. It may be moved between calls, as no pointer into it is left.
///
/// If [`Skcipher::may_sleep`], the first call allocates a request that does not move, from a small
/// reserve if memory is short. A task that then holds another such request of the cipher may
/// deadlock. Every call waits until the cipher has completed the request.
///
/// The C request, its context and the initialisation vector are wiped on drop.
///
/// # Invariants
///
/// - `on_stack.request` is initialised, and its `base.tfm` is that of `cipher`.
/// - The tables of `head` are initialised.
/// - If there is a `buf`, its request is initialised, uses the cipher of `cipher`, and completes
///   the wait of `buf`. The tables of its head are initialised.
pub struct Request<'t> {
    cipher: &'t Skcipher,
    on_stack: OnStack,
    head: Head,
    buf: Option<RequestBuf<'t>>,
}

impl<'t> Request<'t> {
    /// Sets up a request for `cipher`.
    #[inline]
    pub(super) fn new(cipher: &'t Skcipher) -> Self {
        // All-zero bytes are a valid value: no flags, no callback, no pointers.
        let mut request = MaybeUninit::<bindings::skcipher_request>::zeroed();
        // As `skcipher_request_set_tfm()` in `include/crypto/skcipher.h`.
        //
        // SAFETY: The request is valid for writes, and `tfm` is a cipher by its type invariants.
        unsafe {
            (*request.as_mut_ptr()).base.tfm = &raw mut (*cipher.tfm.as_ptr()).base;
        }

        // INVARIANT: `request` and `head` are initialised above; there is no request buffer.
        Self {
            cipher,
            on_stack: OnStack {
                request,
                context: MaybeUninit::uninit(),
            },
            head: Head::new(),
            buf: None,
        }
    }

    /// Encrypts `src` into `dst`.
    ///
    /// Both may be the same memory. With any other overlap, the result is undefined data.
    ///
    /// After a failure, the contents of `dst` are undefined. Fails with
    ///
    /// - [`EINVAL`] unless both have the same length, which must be a multiple of
    ///   [`Skcipher::block_size`] and not 0, and `iv` is [`Skcipher::iv_size`] bytes,
    /// - `ENOKEY` if the cipher has no key,
    /// - [`EDEADLK`] in a hard interrupt; if [`Skcipher::is_async`], also in a softirq and with
    ///   softirqs or interrupts disabled,
    /// - [`ENOMEM`] if the cipher must copy unaligned data and there is no memory for the copy, or
    ///   if [`Skcipher::may_sleep`], the context cannot sleep, and there is no memory for the
    ///   request.
    ///
    /// Context: Process or softirq context. May sleep if [`Skcipher::may_sleep`] and both softirqs
    /// and interrupts are enabled.
    #[inline]
    pub fn encrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8]) -> Result {
        self.copy(src, dst, iv, bindings::crypto_skcipher_encrypt)
    }

    /// Decrypts `src` into `dst`. The inverse of [`Self::encrypt`], with the same conditions.
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn decrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8]) -> Result {
        self.copy(src, dst, iv, bindings::crypto_skcipher_decrypt)
    }

    /// Encrypts `data` in place. Otherwise as [`Self::encrypt`].
    ///
    /// Fails with [`EINVAL`], too, if a part of `data` was not written yet, see
    /// [`SegmentMut::as_segment()`].
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn encrypt_in_place(&mut self, data: SegmentMut<'_>, iv: &[u8]) -> Result {
        self.in_place(data, iv, bindings::crypto_skcipher_encrypt)
    }

    /// Decrypts `data` in place. Otherwise as [`Self::encrypt_in_place()`].
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn decrypt_in_place(&mut self, data: SegmentMut<'_>, iv: &[u8]) -> Result {
        self.in_place(data, iv, bindings::crypto_skcipher_decrypt)
    }

    /// Encrypts `src` into `dst` in sectors of `sector_size` bytes, each with its own
    /// initialisation vector.
    ///
    /// As [`Self::encrypt()`] for each sector, from the first to the last, but checks the lengths
    /// once, and prepares the request once. `iv` returns the initialisation vector of the next
    /// sector, in the first [`Skcipher::iv_size`] bytes of the array.
    ///
    /// Fails with [`EINVAL`], and changes nothing, if `sector_size` is no power of two, is no
    /// multiple of [`Skcipher::block_size`], or does not divide the length, which must not be 0 and
    /// must be the same for both segments. Otherwise fails as [`Self::encrypt()`].
    ///
    /// Context: As [`Self::encrypt`]. C: as `__blk_crypto_fallback_encrypt_bio()` in
    /// `block/blk-crypto-fallback.c`.
    #[inline]
    pub fn encrypt_sectors(
        &mut self,
        src: Segment<'_>,
        dst: SegmentMut<'_>,
        sector_size: NonZeroU32,
        iv: impl FnMut() -> [u8; MAX_IV_SIZE],
    ) -> Result {
        let data = Data {
            src: Some(src.as_raw_parts()),
            dst: dst.as_raw_parts(),
        };

        // SAFETY: The caller lends the segments.
        unsafe { self.crypt_sectors(data, sector_size, iv, bindings::crypto_skcipher_encrypt)? };
        dst.record_filled();
        Ok(())
    }

    /// Decrypts `data` in place in sectors. The inverse of [`Self::encrypt_sectors()`], with the
    /// same conditions.
    ///
    /// Fails with [`EINVAL`], too, if a part of `data` was not written yet, as
    /// [`Self::encrypt_in_place()`].
    ///
    /// Context: As [`Self::encrypt`].
    #[inline]
    pub fn decrypt_sectors_in_place(
        &mut self,
        data: SegmentMut<'_>,
        sector_size: NonZeroU32,
        iv: impl FnMut() -> [u8; MAX_IV_SIZE],
    ) -> Result {
        if !data.is_written() {
            return Err(EINVAL);
        }
        let data = Data {
            src: None,
            dst: data.as_raw_parts(),
        };

        // SAFETY: The caller lends the segment.
        unsafe { self.crypt_sectors(data, sector_size, iv, bindings::crypto_skcipher_decrypt) }
    }

    #[inline]
    fn copy(&mut self, src: Segment<'_>, dst: SegmentMut<'_>, iv: &[u8], crypt: Crypt) -> Result {
        let data = Data {
            src: Some(src.as_raw_parts()),
            dst: dst.as_raw_parts(),
        };

        // SAFETY: The caller lends the segments.
        unsafe { self.crypt(&data, iv, crypt)? };
        dst.record_filled();
        Ok(())
    }

    #[inline]
    fn in_place(&mut self, data: SegmentMut<'_>, iv: &[u8], crypt: Crypt) -> Result {
        if !data.is_written() {
            return Err(EINVAL);
        }
        let data = Data {
            src: None,
            dst: data.as_raw_parts(),
        };

        // SAFETY: The caller lends the segment.
        unsafe { self.crypt(&data, iv, crypt) }
    }

    /// Runs the request on the data.
    ///
    /// # Safety
    ///
    /// The segments of `data` must be borrowed until this returns.
    #[inline]
    pub(super) unsafe fn crypt(&mut self, data: &Data, iv: &[u8], crypt: Crypt) -> Result {
        self.cipher.check(data, iv)?;
        if let Some(pool) = self.cipher.pool() {
            // SAFETY: By this function's contract.
            return unsafe { self.crypt_in_buf(pool, data, iv, crypt) };
        }
        not_in_hardirq()?;

        let request = self.on_stack.request.as_mut_ptr();
        // SAFETY: The request and the tables are initialised by the type invariants. The data is
        // valid by this function's contract.
        unsafe { self.head.set_crypt(request, data, iv)? };
        // SAFETY: The request has a cipher by the type invariants, which has no pool. Source,
        // destination and initialisation vector are set and live, see above.
        unsafe { run(&raw mut self.on_stack, crypt) }
    }

    /// Runs the request on each sector of the data.
    ///
    /// # Safety
    ///
    /// As for [`Self::crypt()`].
    // So that `crypt` is called directly, and `iv` writes to its final place.
    #[inline(always)]
    unsafe fn crypt_sectors(
        &mut self,
        data: Data,
        sector_size: NonZeroU32,
        mut iv: impl FnMut() -> [u8; MAX_IV_SIZE],
        crypt: Crypt,
    ) -> Result {
        let (_, _, len) = data.dst;
        let size = sector_size.get();

        self.cipher.check_sectors(len, sector_size)?;
        if data.src.is_some_and(|(_, _, src_len)| src_len != len) {
            return Err(EINVAL);
        }
        if self.cipher.pool().is_some() {
            // SAFETY: By this function's contract. The sectors are in the data, see above.
            return unsafe { self.crypt_sectors_in_buf(data, size, iv, crypt) };
        }
        not_in_hardirq()?;

        // All accesses are by these pointers from here on: the request keeps pointers into `head`.
        let (on_stack, head) = (&raw mut self.on_stack, &raw mut self.head);
        // SAFETY: The request and the tables are initialised by the type invariants. The first
        // sector is valid by this function's contract.
        unsafe { Head::set_data(head, on_stack.cast(), &data.part(0, size))? };
        let mut left = len;
        loop {
            // SAFETY: `head` is valid, and no cipher uses it now.
            unsafe { (*head).iv.0 = iv() };
            // SAFETY:
            // - The request has a cipher by the type invariants, which has no pool.
            // - Source and destination are the next sector, which is valid by this function's
            //   contract, and `iv` lives. They are set above: a cipher does not change the
            //   request, see `test_skcipher_vec_cfg()` in `crypto/testmgr.c`.
            unsafe { run(on_stack, crypt)? };

            // OVERFLOW: `left` is a multiple of `size`, and not 0.
            left = left.wrapping_sub(size);
            if left == 0 {
                return Ok(());
            }
            // SAFETY: As above.
            let (src, dst) = unsafe { (&mut (*head).src.offset, &mut (*head).dst.offset) };
            // OVERFLOW: The offsets in a segment are at most `PAGE_SIZE`. In place, nothing uses
            // the offset in `src`.
            *src = src.wrapping_add(size);
            *dst = dst.wrapping_add(size);
        }
    }

    /// As [`Self::crypt_sectors()`], for a cipher with a pool.
    ///
    /// # Safety
    ///
    /// As for [`Self::crypt()`], and the length of the data must be a multiple of `size`.
    #[cold]
    #[inline(never)]
    unsafe fn crypt_sectors_in_buf(
        &mut self,
        data: Data,
        size: u32,
        mut iv: impl FnMut() -> [u8; MAX_IV_SIZE],
        crypt: Crypt,
    ) -> Result {
        let (_, _, len) = data.dst;

        for start in (0..len).step_by(size.into_safe_cast()) {
            let iv = iv();
            let iv = iv.get(..self.cipher.iv_size()).ok_or(EINVAL)?;
            // SAFETY: By this function's contract. The sector is in the data.
            unsafe { self.crypt(&data.part(start, size), iv, crypt)? };
        }
        Ok(())
    }

    /// As [`Self::crypt()`], but in a separate allocation that a driver may use after `crypt`
    /// returns. Waits for the driver.
    ///
    /// # Safety
    ///
    /// As for [`Self::crypt()`].
    #[cold]
    #[inline(never)]
    unsafe fn crypt_in_buf(
        &mut self,
        pool: &'t request_buf::RequestPool<Head, bindings::skcipher_request>,
        data: &Data,
        iv: &[u8],
        crypt: Crypt,
    ) -> Result {
        let buf = match &mut self.buf {
            Some(buf) => buf,
            none => none.insert(new_buf(self.cipher, pool.alloc(Gfp::noio_or_atomic())?)),
        };
        let request = buf.request();

        // SAFETY: The request and the tables are initialised by the type invariants. The data is
        // valid by this function's contract.
        unsafe { buf.head().set_crypt(request, data, iv)? };
        // SAFETY:
        // - The request has a cipher by the type invariants. Source, destination and initialisation
        //   vector are set and live until this returns. The request buffer has room for the context
        //   by the type invariants of `Skcipher`.
        // - The callback is set, see `new_buf()`.
        unsafe { buf.run(self.cipher.is_async, crypt) }
    }
}

/// Runs a request on the stack.
///
/// # Safety
///
/// The request must have a cipher without a pool. Its source, destination and initialisation vector
/// must be set and live.
#[inline(always)]
unsafe fn run(request: *mut OnStack, crypt: Crypt) -> Result {
    // SAFETY:
    // - The request is set up by this function's contract.
    // - The cipher has no pool of request buffers, so by its type invariants it is synchronous, and
    //   uses nothing after the call returns. Its context has at most `MAX_SYNC_SKCIPHER_REQSIZE`
    //   bytes, so it fits.
    match unsafe { crypt(request.cast()) } {
        0 => Ok(()),
        error => to_result(error),
    }
}

/// Fails with [`EDEADLK`] in a hard interrupt: the cipher would overwrite the FPU state of the
/// interrupted code, see `irq_fpu_usable()` on x86.
#[inline]
fn not_in_hardirq() -> Result {
    // SAFETY: Reads a counter of this CPU.
    if unsafe { bindings::in_hardirq() } {
        return Err(EDEADLK);
    }
    Ok(())
}

/// Sets up the request of `buf` for `cipher`.
pub(super) fn new_buf<'t>(cipher: &Skcipher, mut buf: RequestBuf<'t>) -> RequestBuf<'t> {
    let (request, wait) = (buf.request(), buf.wait());

    // SAFETY: `tfm` is a cipher by its type invariants. The request is valid for writes, and
    // all-zero bytes are a valid value.
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
    *buf.head() = Head::new();
    buf
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        // With a pool of request buffers, the request on the stack is unused, and has no room for
        // the context.
        if self.cipher.pool().is_none() {
            // SAFETY: The request has a cipher by the type invariants, followed by memory for its
            // context: see `crypt()`.
            unsafe { bindings::skcipher_request_zero((&raw mut self.on_stack).cast()) };
        }
        memzero_explicit(&mut self.head.iv.0);
    }
}
