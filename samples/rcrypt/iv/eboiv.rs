// SPDX-License-Identifier: GPL-2.0

//! eboiv, the encrypted byte offset: what BitLocker does in CBC mode.
//!
//! The vector is what the cipher makes of zeros, with the place of the sector in bytes as its own
//! vector. The cipher is the first one, also of several.

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

/// Pages in the reserve. Each walk has one while it lasts, and waits for nobody else meanwhile.
const RESERVE_PAGES: usize = 2;

/// The mode, for one target.
pub(crate) struct Eboiv {
    /// For what the cipher works on: it does not take memory from the stack.
    pages: Pin<KBox<Mempool<Pages>>>,
    sector_size: u32,
    iv_size: u32,
}

impl Eboiv {
    /// Fails with [`EINVAL`] unless vectors are as long as blocks, with [`ENOMEM`] without memory.
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

    /// Returns what is done to the sectors of a bio. `first` is the first of several ciphers.
    ///
    /// Waits for memory if it may; where it must not, it may fail with [`BlkError::RESOURCE`].
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

/// The mode, for one bio.
pub(crate) struct EboivWalk<'a> {
    first: Option<&'a Skcipher>,
    page: Element<&'a Mempool<Pages>>,
    /// How many bytes of the page are to be wiped.
    used: usize,
    mode: &'a Eboiv,
}

impl EboivWalk<'_> {
    /// Returns the vector of a sector.
    ///
    /// A request of some ciphers has memory from a pool, so there must not be two of them at once.
    /// That of the sector has none before it is used for the sector.
    pub(super) fn iv(&mut self, request: &mut Request<'_>, sector: u64) -> Result<Iv> {
        // CAST: From 32 to 64 bits.
        let size = self.mode.iv_size as usize;
        let mut offset = [0; MAX_IV_SIZE];
        let mut iv = [0; MAX_IV_SIZE];

        // OVERFLOW: Wraps as in C. The number may count 512 bytes while `sector_size` is more, and
        // then this is not the place in bytes, but dm-crypt does the same.
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

    /// Returns memory for `len` bytes, which is used for each vector too.
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
