// SPDX-License-Identifier: GPL-2.0

//! Requests of an authenticated cipher.

use kernel::{
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*, //
};

use crate::{
    bindings,
    block::bio::SegmentMut,
    crypto::{
        request_buf,
        skcipher::MAX_IV_SIZE, //
    }, //
};

use super::{
    Aead,
    MAX_ASSOCIATED_SIZE,
    MAX_TAG_SIZE, //
};

/// The buffers of a request. All small inputs are copied here, so that a driver may use DMA.
#[derive(Zeroable)]
#[repr(C, align(16))]
pub(super) struct Head {
    iv: [u8; MAX_IV_SIZE],
    associated: [u8; MAX_ASSOCIATED_SIZE],
    tag: [u8; MAX_TAG_SIZE],
    /// Associated data (unless empty), data, and tag.
    sg: [bindings::scatterlist; 3],
}

/// A request of an [`Aead`], for a single thread.
///
/// Each call copies the initialisation vector, the associated data and the tag. The data is not
/// copied.
///
/// The request is wiped on drop.
///
/// # Invariants
///
/// The request of `buf` is initialised, uses the cipher of `cipher`, and completes the wait of
/// `buf`.
pub struct Request<'t> {
    cipher: &'t Aead,
    buf: request_buf::RequestBuf<'t, Head, bindings::aead_request>,
}

impl<'t> Request<'t> {
    /// Sets up a request for `cipher` in its own request buffer.
    pub(super) fn new(
        cipher: &'t Aead,
        mut buf: request_buf::RequestBuf<'t, Head, bindings::aead_request>,
    ) -> Self {
        let (request, wait) = (buf.request(), buf.wait());

        // SAFETY: `tfm` is a cipher by its type invariants. The request is valid for writes, and
        // all-zero bytes are a valid value.
        unsafe { bindings::aead_request_set_tfm(request, cipher.tfm.as_ptr()) };
        // SAFETY: As above; the callback takes a `crypto_wait`.
        unsafe {
            bindings::aead_request_set_callback(
                request,
                bindings::CRYPTO_TFM_REQ_MAY_BACKLOG,
                Some(bindings::crypto_req_done),
                wait.cast(),
            )
        };
        // INVARIANT: Established above.
        Self { cipher, buf }
    }

    /// Returns whether a driver without room keeps the request until it has.
    #[cfg(kscale_kunit)]
    pub(super) fn may_backlog(&mut self) -> bool {
        // SAFETY: The request is initialised, by the type invariants.
        let flags = unsafe { (*self.buf.request()).base.flags };
        flags & bindings::CRYPTO_TFM_REQ_MAY_BACKLOG != 0
    }

    /// Encrypts `data` in place. Writes the tag of the data, `associated` and `iv` to `tag`.
    ///
    /// After a failure, the contents of `data` and `tag` are undefined. Fails with
    ///
    /// - [`EINVAL`] unless the length of `data` is a multiple of [`Aead::block_size`] and not 0,
    ///   `iv` is [`Aead::iv_size`] bytes, `tag` is [`Aead::tag_size`] bytes, `associated` is at
    ///   most [`MAX_ASSOCIATED_SIZE`] bytes, and `data` was written, see
    ///   [`SegmentMut::as_segment()`],
    /// - `ENOKEY` if the cipher has no key,
    /// - [`EDEADLK`] in a hard interrupt; if [`Aead::is_async`], also in a softirq and with
    ///   softirqs or interrupts disabled,
    /// - [`ENOMEM`] if the cipher must copy unaligned data and there is no memory for the copy.
    ///
    /// Context: Process or softirq context. May sleep if [`Aead::is_async`].
    pub fn encrypt(
        &mut self,
        data: SegmentMut<'_>,
        associated: &[u8],
        iv: &[u8],
        tag: &mut [u8],
    ) -> Result {
        // The old contents of the request buffer do not matter.
        self.set_crypt(&data, associated, iv, tag, 0)?;
        // SAFETY: `set_crypt()` succeeded above, and the caller lends the data.
        unsafe { self.run(bindings::crypto_aead_encrypt)? };
        if let Some(made) = self.buf.head().tag.get(..tag.len()) {
            tag.copy_from_slice(made);
        }
        Ok(())
    }

    /// Decrypts `data` in place, and verifies the data, `associated` and `iv` with `tag`.
    ///
    /// Fails with [`EBADMSG`] if the verification fails, and otherwise as [`Self::encrypt()`].
    /// After a failure, the contents of `data` are undefined.
    ///
    /// Context: Process or softirq context. May sleep if [`Aead::is_async`].
    pub fn decrypt(
        &mut self,
        data: SegmentMut<'_>,
        associated: &[u8],
        iv: &[u8],
        tag: &[u8],
    ) -> Result {
        // The tag to verify is a part of the ciphertext. OVERFLOW: At most 64.
        self.set_crypt(&data, associated, iv, tag, tag.len() as u32)?;
        // SAFETY: `set_crypt()` succeeded above, and the caller lends the data.
        unsafe { self.run(bindings::crypto_aead_decrypt) }
    }

    /// Points the request to the data and to copies of the other inputs.
    ///
    /// The length for the cipher includes `more` bytes after the data.
    fn set_crypt(
        &mut self,
        data: &SegmentMut<'_>,
        associated: &[u8],
        iv: &[u8],
        tag: &[u8],
        more: u32,
    ) -> Result {
        let (page, offset, len) = data.as_raw_parts();
        let request = self.buf.request();
        let head = self.buf.head();

        if iv.len() != self.cipher.iv_size()
            || tag.len() != self.cipher.tag_size()
            || !data.is_written()
            || len == 0
            || len % self.cipher.block_size != 0
        {
            return Err(EINVAL);
        }
        copy_to(&mut head.iv, iv)?;
        copy_to(&mut head.associated, associated)?;
        copy_to(&mut head.tag, tag)?;

        // Empty entries before the last byte are not allowed.
        let skip = usize::from(associated.is_empty());
        let n_entries = 3 - skip - usize::from(tag.is_empty());
        let sg = head.sg.as_mut_ptr();
        // SAFETY: The table has at least three entries.
        unsafe { bindings::sg_init_table(sg, n_entries as c_uint) };
        if skip == 0 {
            // SAFETY: The entry is initialised, and the bytes are memory from `kmalloc()`.
            // CAST: At most `MAX_ASSOCIATED_SIZE`.
            unsafe {
                bindings::sg_set_buf(
                    sg,
                    head.associated.as_mut_ptr().cast(),
                    associated.len() as c_uint,
                )
            };
        }
        // SAFETY: The entry is initialised. `page` is a page with `len` bytes at `offset`, by the
        // invariants of the segment.
        unsafe { bindings::sg_set_page(sg.add(1 - skip), page, len, offset) };
        if !tag.is_empty() {
            // SAFETY: The entry is initialised, and the bytes are memory from `kmalloc()`.
            // CAST: At most `MAX_TAG_SIZE`.
            unsafe {
                bindings::sg_set_buf(
                    sg.add(2 - skip),
                    head.tag.as_mut_ptr().cast(),
                    tag.len() as c_uint,
                )
            };
        }

        // CAST: At most `MAX_ASSOCIATED_SIZE`.
        // SAFETY: The request is initialised by the type invariants.
        unsafe { bindings::aead_request_set_ad(request, associated.len() as c_uint) };
        // SAFETY: As above.
        // OVERFLOW: At most a page and a tag.
        unsafe {
            bindings::aead_request_set_crypt(request, sg, sg, len + more, head.iv.as_mut_ptr())
        };
        Ok(())
    }

    /// Runs the request.
    ///
    /// # Safety
    ///
    /// `set_crypt()` must have succeeded, and the caller must still borrow the data.
    unsafe fn run(
        &mut self,
        crypt: unsafe extern "C" fn(*mut bindings::aead_request) -> c_int,
    ) -> Result {
        let is_async = self.cipher.is_async;

        // SAFETY:
        // - The request has a cipher, and completes the wait of the request buffer, by the type
        //   invariants.
        // - Data, initialisation vector and table are set and live, by this function's contract.
        //   The request buffer has room for the context of the cipher, by the type invariants of
        //   `Aead`.
        // - Unless `is_async`, the cipher has completed the request when the call returns.
        unsafe { self.buf.run(is_async, crypt) }
    }
}

/// Copies `from` to the start of `to`.
fn copy_to(to: &mut [u8], from: &[u8]) -> Result {
    to.get_mut(..from.len())
        .ok_or(EINVAL)?
        .copy_from_slice(from);
    Ok(())
}
