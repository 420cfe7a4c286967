// SPDX-License-Identifier: GPL-2.0

//! eboiv, the encrypted byte offset: the CBC scheme of BitLocker.
//!
//! The cipher encrypts a block of zeros, with the byte offset of the sector as its IV. The result
//! is the vector of the sector. With several ciphers, the first cipher encrypts the vector.

use kernel::prelude::*;

use core::mem::MaybeUninit;

use kscale::{
    block::bio::{
        BlkError,
        Segment,
        SegmentMut, //
    },
    crypto::{
        secret::memzero_explicit,
        skcipher::{
            Request,
            Skcipher,
            MAX_IV_SIZE, //
        }, //
    },
    mm::{
        gfp::Gfp,
        mempool::{
            Element,
            Mempool,
            Pages, //
        }, //
    }, //
};

use super::{
    Input,
    Iv,
    Params,
    Walk, //
};

/// Pages in the reserve. A walk holds one page and does not wait for other walks.
const RESERVE_PAGES: usize = 2;

/// The eboiv mode of a target.
pub(crate) struct Eboiv {
    /// Working memory of the cipher, which cannot use memory on the stack.
    pages: Pin<KBox<Mempool<Pages>>>,
    sector_size: u32,
    iv_size: u32,
}

impl Eboiv {
    /// Returns [`EINVAL`] if vectors and blocks differ in length, and [`ENOMEM`] without memory.
    pub(super) fn new(params: &Params<'_>) -> Result<Self> {
        if params.block_size != params.iv_size {
            return Err(EINVAL);
        }
        Ok(Self {
            pages: KBox::try_pin_init(Mempool::new(RESERVE_PAGES, Pages::<0>), GFP_KERNEL)?,
            sector_size: params.options.sector_size.get(),
            iv_size: u32::try_from(params.iv_size)?,
        })
    }

    /// Returns the walk for a bio. `first` is the first of several ciphers.
    ///
    /// Waits for memory in process context. Returns [`BlkError::RESOURCE`] if there is none in
    /// atomic context.
    pub(crate) fn walk<'a>(
        &'a self,
        first: Option<&'a Skcipher>,
    ) -> Result<EboivWalk<'a>, BlkError> {
        let page = self
            .pages
            .alloc(Gfp::noio_or_atomic())
            .map_err(|_| BlkError::RESOURCE)?;

        Ok(EboivWalk {
            first,
            page,
            used: 0,
            mode: self,
        })
    }
}

/// The eboiv mode of a bio.
pub(crate) struct EboivWalk<'a> {
    first: Option<&'a Skcipher>,
    page: Element<&'a Mempool<Pages>>,
    /// Number of used bytes of the page, which are wiped on drop.
    used: usize,
    mode: &'a Eboiv,
}

impl EboivWalk<'_> {
    /// Returns the vector of a sector.
    ///
    /// The requests of some ciphers allocate memory from a pool, so a task must not use two
    /// requests at once. `request` holds no such memory before it processes the sector.
    pub(super) fn iv(&mut self, request: &mut Request<'_>, sector: u64) -> Result<Iv> {
        // CAST: From 32 to 64 bits.
        let size = self.mode.iv_size as usize;
        let mut offset = [0; MAX_IV_SIZE];
        let mut iv = [0; MAX_IV_SIZE];

        // OVERFLOW: Wraps as in C. If `sector` is in units of 512 bytes and `sector_size` is
        // larger, the product is not the byte offset; dm-crypt computes the same value.
        *offset.first_chunk_mut().ok_or(EINVAL)? = sector
            .wrapping_mul(self.mode.sector_size.into())
            .to_le_bytes();

        self.used = self.used.max(size);
        self.page.zeroed_mut(size).ok_or(EINVAL)?;
        let mut block = self.page.segment_mut(0, self.mode.iv_size).ok_or(EINVAL)?;
        let offset = offset.get(..size).ok_or(EINVAL)?;
        match self.first {
            None => request.encrypt_in_place(block.reborrow(), offset)?,
            Some(first) => first.request().encrypt_in_place(block.reborrow(), offset)?,
        }
        block
            .as_segment()
            .read_at(0, iv.get_mut(..size).ok_or(EINVAL)?)?;
        Ok(iv)
    }

    /// Returns a buffer of `len` bytes. [`Self::iv()`] overwrites it.
    pub(super) fn work_area(&mut self, len: usize) -> Result<&mut [MaybeUninit<u8>]> {
        self.used = self.used.max(len);
        self.page.as_uninit_slice_mut().get_mut(..len).ok_or(EINVAL)
    }
}

impl Drop for EboivWalk<'_> {
    fn drop(&mut self) {
        if let Some(bytes) = self.page.zeroed_mut(self.used) {
            memzero_explicit(bytes);
        }
    }
}

impl Walk for EboivWalk<'_> {
    fn before_encrypt(
        &mut self,
        request: &mut Request<'_>,
        sector: u64,
        _src: Segment<'_>,
        _dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)> {
        Ok((self.iv(request, sector)?, Input::Source))
    }

    fn before_decrypt(
        &mut self,
        request: &mut Request<'_>,
        sector: u64,
        _data: &mut SegmentMut<'_>,
    ) -> Result<Iv> {
        self.iv(request, sector)
    }
}
