// SPDX-License-Identifier: GPL-2.0

//! eboiv, the encrypted byte offset: the CBC scheme of BitLocker.
//!
//! The cipher encrypts a block of zeros, with the byte offset of the sector as its IV. The result
//! is the IV of the sector. With several ciphers, the first cipher encrypts the IV.

use kernel::prelude::*;

use core::{
    mem::MaybeUninit,
    num::NonZeroU32, //
};

use kscale::{
    block::bio::BlkError,
    crypto::{
        secret::memzero_explicit,
        skcipher::{
            Request,
            Skcipher, //
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

use crate::format::skcipher::Ciphers;

use super::{
    padded,
    Iv,
    IvOps,
    Params, //
};

/// Pages in the reserve. A bio holds one page and does not wait for other bios.
const RESERVE_PAGES: usize = 2;

/// The eboiv mode of a target: working memory of the cipher, which cannot use memory on the stack.
pub(crate) struct Eboiv(Pin<KBox<Mempool<Pages>>>);

impl Eboiv {
    /// Returns [`EINVAL`] if IVs and blocks differ in length, and [`ENOMEM`] without memory.
    pub(super) fn new(params: &Params<'_>) -> Result<Self> {
        if params.block_size != params.iv_size {
            return Err(EINVAL);
        }
        Ok(Self(KBox::try_pin_init(
            Mempool::new(RESERVE_PAGES, Pages::<0>),
            GFP_KERNEL,
        )?))
    }

    /// Returns the operations for a bio with sectors of `sector_size` bytes.
    ///
    /// Waits for memory in process context. Returns [`BlkError::RESOURCE`] if there is none in
    /// atomic context.
    pub(crate) fn ops<'a>(
        &'a self,
        ciphers: &'a Ciphers,
        sector_size: NonZeroU32,
    ) -> Result<EboivIv<'a>, BlkError> {
        let page = self
            .0
            .alloc(Gfp::noio_or_atomic())
            .map_err(|_| BlkError::RESOURCE)?;

        Ok(EboivIv {
            first: ciphers.first_of_many(),
            // CAST: At most `MAX_IV_SIZE`.
            iv_size: ciphers.iv_size() as u32,
            page,
            used: 0,
            sector_size: sector_size.get(),
        })
    }
}

/// The eboiv mode of a bio.
pub(crate) struct EboivIv<'a> {
    /// The first of several ciphers. A single cipher uses the request of the sector.
    first: Option<&'a Skcipher>,
    iv_size: u32,
    page: Element<&'a Mempool<Pages>>,
    /// Number of used bytes of the page, which are wiped on drop.
    used: usize,
    sector_size: u32,
}

impl EboivIv<'_> {
    /// Returns the start of a sector in bytes, which is encrypted.
    pub(super) fn offset(&self, sector: u64) -> [u8; 8] {
        // OVERFLOW: Wraps as in C. If `sector` is in units of 512 bytes and `sector_size` is
        // larger, the product is not the byte offset; dm-crypt computes the same value.
        sector.wrapping_mul(self.sector_size.into()).to_le_bytes()
    }

    /// Returns a buffer for a sector. [`IvOps::generate()`] overwrites it.
    pub(super) fn work_area(&mut self) -> Result<&mut [MaybeUninit<u8>]> {
        // CAST: From 32 to 64 bits.
        let len = self.sector_size as usize;

        self.used = self.used.max(len);
        self.page.as_uninit_slice_mut().get_mut(..len).ok_or(EINVAL)
    }
}

impl Drop for EboivIv<'_> {
    fn drop(&mut self) {
        if let Some(bytes) = self.page.zeroed_mut(self.used) {
            memzero_explicit(bytes);
        }
    }
}

impl IvOps for EboivIv<'_> {
    /// The requests of some ciphers allocate memory from a pool, so a task must not use two
    /// requests at once. `request` holds no such memory before it processes the sector.
    fn generate(&mut self, request: &mut Request<'_>, sector: u64) -> Result<Iv> {
        // CAST: From 32 to 64 bits.
        let size = self.iv_size as usize;
        let offset = padded(&self.offset(sector));
        let offset = offset.get(..size).ok_or(EINVAL)?;
        let mut iv = Iv::default();

        self.used = self.used.max(size);
        let block = self.page.zeroed_segment_mut(0, self.iv_size);
        let mut block = block.ok_or(EINVAL)?;
        match self.first {
            None => request.encrypt_in_place(block.reborrow(), offset)?,
            Some(first) => first.request().encrypt_in_place(block.reborrow(), offset)?,
        }
        block
            .as_segment()
            .read_at(0, iv.get_mut(..size).ok_or(EINVAL)?)?;
        Ok(iv)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_iv_eboiv)]
mod tests {
    use super::*;

    use kscale::{
        block::dm::CtrError,
        crypto::secret::SecretBytes, //
    };

    use crate::{
        cipher_spec::CipherSpec,
        format::Format,
        iv::IvGenerator,
        options::Options, //
    };

    /// The elephant mode writes data there, which must not stay in the page.
    #[test]
    fn work_area_is_wiped() -> Result {
        let new = || -> Result<Format, CtrError> {
            let spec = CipherSpec::parse(c"aes-cbc-eboiv", false)?;
            let key = || SecretBytes::new(&[1; 16]);
            Ok(Format::new(&spec, 16, key, &Options::DEFAULT)?.0)
        };
        let format = new().map_err(|error| error.error())?;
        let Format::Plain {
            ciphers,
            iv: IvGenerator::Eboiv(mode),
        } = &format
        else {
            return Err(EINVAL);
        };
        let size = NonZeroU32::new(1024).ok_or(EINVAL)?;
        let mut ops = mode.ops(ciphers, size).map_err(|_| ENOMEM)?;

        assert_eq!(ops.used, 0);
        assert_eq!(ops.work_area()?.len(), 1024);
        assert_eq!(ops.used, 1024);
        Ok(())
    }
}
