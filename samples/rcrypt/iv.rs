// SPDX-License-Identifier: GPL-2.0

//! Initialisation vectors, which make equal sectors differ on the device.
//!
//! The modes are those of dm-crypt, `crypt_iv_*()` in `drivers/md/dm-crypt.c`, one file each:
//!
//! - `sector.rs`: benbi, essiv, null, plain, plain64 and plain64be. The IV depends only on the
//!   sector number.
//! - `eboiv.rs`: BitLocker. The IV is the encrypted byte offset.
//! - `elephant.rs`: BitLocker before Windows 8. As eboiv, and a diffuser mixes the bytes of a
//!   sector.
//! - `lmk.rs`: Loop-AES. The IV is a hash of the sector.
//! - `tcw.rs`: TrueCrypt before 4.1. The IV has a seed, and the ciphertext is whitened.
//! - `stored.rs`: a random IV, stored beside its sector.
//!
//! An [`IvMode`] is the mode that the table line names. An [`IvGenerator`] is a mode with its part
//! of the key. [`IvOps`] apply a mode to the sectors of one bio.

use kernel::prelude::*;

use kscale::{
    block::{
        bio::{
            Segment,
            SegmentMut, //
        },
        dm::CtrError, //
    },
    crypto::skcipher::{
        Request,
        MAX_IV_SIZE, //
    }, //
};

use crate::{
    options::Options,
    table::KeyLayout, //
};

mod diffuser;
mod eboiv;
mod elephant;
mod lmk;
mod sector;
mod stored;
mod tcw;

pub(crate) use self::{
    eboiv::Eboiv,
    elephant::Elephant,
    lmk::Lmk,
    sector::SectorMode,
    stored::StoredIv,
    tcw::Tcw, //
};

/// An initialisation vector, in a buffer for the longest IV.
pub(crate) type Iv = [u8; MAX_IV_SIZE];

/// Minimum length of a generated IV in bytes: a sector number fits. A cipher with shorter
/// IVs uses the first bytes.
pub(crate) const MIN_IV_SIZE: usize = 8;

/// Returns the length in bytes of a generated IV for a cipher with IVs of `iv_size` bytes, 0 if it
/// has none.
pub(crate) fn iv_len(iv_size: usize) -> usize {
    match iv_size {
        0 => 0,
        _ => iv_size.max(MIN_IV_SIZE),
    }
}

/// Returns an IV that starts with `bytes`.
#[inline]
pub(crate) fn padded(bytes: &[u8]) -> Iv {
    let mut iv = Iv::default();

    if let Some(start) = iv.get_mut(..bytes.len()) {
        start.copy_from_slice(bytes);
    }
    iv
}

/// The input of the cipher.
pub(crate) enum Input {
    /// The cipher reads the source.
    Source,
    /// The cipher reads the destination, where the mode stored its input.
    Destination,
}

/// The operations of an IV mode on the sectors of a bio. C: `struct crypt_iv_operations`.
///
/// `sector` is the number from which the IV is generated. The hooks before and after the cipher
/// cost nothing for a mode that does not change the data.
pub(crate) trait IvOps {
    /// Returns the IV of a sector, after the hook before the cipher. `request` is the cipher
    /// request of the sector. C: `crypt_iv_operations::generator`.
    fn generate(&mut self, request: &mut Request<'_>, sector: u64) -> Result<Iv>;

    /// Returns a part of the key that the caller XORs into every IV, or [`None`].
    ///
    /// The caller XORs it immediately before use and wipes the result: an IV that a function
    /// returns may leave copies on the stack.
    #[inline]
    fn seed(&self) -> Option<&[u8]> {
        None
    }

    /// Runs before the encryption of a sector, and returns the input of the cipher.
    #[inline]
    fn pre_encrypt(
        &mut self,
        _sector: u64,
        _src: Segment<'_>,
        _dst: &mut SegmentMut<'_>,
    ) -> Result<Input> {
        Ok(Input::Source)
    }

    /// Runs after the encryption of a sector. C: `crypt_iv_operations::post`.
    #[inline]
    fn post_encrypt(&mut self, _sector: u64, _dst: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }

    /// Runs before the decryption of a sector.
    #[inline]
    fn pre_decrypt(&mut self, _sector: u64, _data: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }

    /// Runs after the decryption of a sector. C: `crypt_iv_operations::post`.
    #[inline]
    fn post_decrypt(&mut self, _sector: u64, _data: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }
}

/// An IV mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IvMode {
    Sector(SectorMode),
    Eboiv,
    Elephant,
    Lmk,
    Tcw,
    Random,
}

/// The parameters of a generator.
pub(crate) struct Params<'a> {
    /// The whole key.
    pub(crate) key: &'a [u8],
    /// Length of the mode's part of the key, in bytes.
    pub(crate) extra_len: usize,
    /// Number of ciphers that share the rest of the key.
    pub(crate) n_keys: usize,
    /// IV length of the ciphers, in bytes.
    pub(crate) iv_size: usize,
    /// Block size of the ciphers, in bytes.
    pub(crate) block_size: usize,
    pub(crate) options: &'a Options,
}

impl IvMode {
    /// Returns the mode with the given name.
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "eboiv" => Some(Self::Eboiv),
            "elephant" => Some(Self::Elephant),
            "lmk" => Some(Self::Lmk),
            "random" => Some(Self::Random),
            "tcw" => Some(Self::Tcw),
            _ => SectorMode::from_name(name).map(Self::Sector),
        }
    }

    /// Returns the mode with the given name for a cipher with IVs of `iv_size` bytes.
    ///
    /// A cipher without IVs has the mode `null`. Errors carry the messages of dm-crypt.
    pub(crate) fn for_cipher(iv_size: usize, name: Option<&str>) -> Result<Self, CtrError> {
        match (iv_size, name) {
            (0, None) => Ok(Self::Sector(SectorMode::Null)),
            (0, Some(_)) => {
                pr_warn!("Selected cipher does not support IVs\n");
                Ok(Self::Sector(SectorMode::Null))
            }
            // dm-crypt uses uninitialised memory here.
            (_, None) => Err(CtrError::invalid(c"IV mechanism required")),
            (_, Some(name)) => Self::from_name(name).ok_or(CtrError::invalid(c"Invalid IV mode")),
        }
    }

    /// Returns the layout of a key of `size_bytes`, for `n_keys` ciphers with IVs of `iv_size`
    /// bytes.
    ///
    /// Returns an error without a message, as dm-crypt does, if the key is too long for the mode.
    pub(crate) fn key_layout(
        self,
        size_bytes: u32,
        n_keys: u32,
        iv_size: u32,
    ) -> Result<KeyLayout, CtrError> {
        let (parts, extra_size_bytes) = match self {
            // The keys of the ciphers count as one part.
            Self::Elephant => (2, elephant::extra_key_len(size_bytes)?),
            Self::Lmk => match lmk::seed_size(size_bytes, n_keys) {
                None => (n_keys, 0),
                Some(size) => (n_keys.saturating_add(1), size),
            },
            Self::Tcw => (n_keys.saturating_add(2), tcw::extra_key_len(iv_size)),
            Self::Sector(_) | Self::Eboiv | Self::Random => (n_keys, 0),
        };

        Ok(KeyLayout {
            size_bytes,
            parts,
            extra_size_bytes,
            mac_size_bytes: 0,
        })
    }

    /// Creates the generator for ciphers that have their keys. Returns [`None`] for random IVs,
    /// which are stored beside the sectors.
    ///
    /// Errors carry the messages of dm-crypt, which do not specify the cause.
    pub(crate) fn generator(self, params: &Params<'_>) -> Result<Option<IvGenerator>, CtrError> {
        const UNFIT: CtrError = CtrError::invalid(c"Error creating IV");
        let unfit = |error| CtrError::new(c"Error creating IV", error);

        Ok(Some(match self {
            Self::Sector(mode) => {
                IvGenerator::Sector(mode.for_block_size(params.block_size).ok_or(UNFIT)?)
            }
            Self::Eboiv => IvGenerator::Eboiv(Eboiv::new(params).map_err(unfit)?),
            Self::Elephant => {
                let eboiv = Eboiv::new(params).map_err(unfit)?;
                IvGenerator::Elephant(
                    Elephant::new(params, eboiv)
                        .map_err(|error| CtrError::new(c"Error initialising IV", error))?,
                )
            }
            Self::Lmk => IvGenerator::Lmk(Lmk::new(params).map_err(unfit)?),
            Self::Tcw => IvGenerator::Tcw(Tcw::new(params).map_err(unfit)?),
            Self::Random => return Ok(None),
        }))
    }
}

/// The IV generator of a target. Its part of the key is wiped on drop.
pub(crate) enum IvGenerator {
    Sector(SectorMode),
    /// As `Sector`, for a cipher with several requests in flight.
    Queued(SectorMode),
    Eboiv(Eboiv),
    Elephant(Elephant),
    Lmk(Lmk),
    Tcw(Tcw),
}

impl IvGenerator {
    /// Returns whether the mode allocates memory for each bio.
    pub(crate) fn may_sleep(&self) -> bool {
        matches!(self, Self::Eboiv(_) | Self::Elephant(_))
    }

    /// Replaces the key by another key of the same length. Allocates no memory.
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result {
        match self {
            Self::Elephant(mode) => mode.set_key(key),
            Self::Lmk(mode) => mode.set_key(key),
            Self::Tcw(mode) => mode.set_key(key),
            Self::Sector(_) | Self::Queued(_) | Self::Eboiv(_) => Ok(()),
        }
    }
}

/// XORs `b` into `a`, over the length of the shorter slice.
pub(crate) fn xor(a: &mut [u8], b: &[u8]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a ^= b;
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_iv)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["", "PLAIN", "plain6", "plain64 ", "lmk2", "eboi"] {
            assert_eq!(IvMode::from_name(name), None);
        }
        assert_eq!(
            IvMode::from_name("plain64"),
            Some(IvMode::Sector(SectorMode::Plain64))
        );
        assert_eq!(IvMode::from_name("eboiv"), Some(IvMode::Eboiv));
        assert_eq!(IvMode::from_name("elephant"), Some(IvMode::Elephant));
        assert_eq!(IvMode::from_name("lmk"), Some(IvMode::Lmk));
        assert_eq!(IvMode::from_name("random"), Some(IvMode::Random));
        assert_eq!(IvMode::from_name("tcw"), Some(IvMode::Tcw));
    }

    #[test]
    fn keys_are_divided_as_by_dm_crypt() {
        for (mode, size_bytes, n_keys, iv_size, expected) in [
            (IvMode::Sector(SectorMode::Plain64), 64, 2, 16, Some((2, 0))),
            (IvMode::Eboiv, 32, 1, 16, Some((1, 0))),
            (IvMode::Elephant, 32, 1, 16, Some((2, 16))),
            (IvMode::Elephant, 33, 1, 16, Some((2, 16))),
            (IvMode::Elephant, 65, 4, 16, Some((2, 32))),
            (IvMode::Elephant, 66, 1, 16, None),
            // Loop-AES versions 1, 2 and 3.
            (IvMode::Lmk, 33, 1, 16, Some((1, 0))),
            (IvMode::Lmk, 64 * 16, 64, 16, Some((64, 0))),
            (IvMode::Lmk, 65 * 16, 64, 16, Some((65, 16))),
            (IvMode::Lmk, 65 * 16 + 3, 64, 16, Some((65, 16))),
            (IvMode::Lmk, 49, 2, 16, Some((3, 16))),
            (IvMode::Lmk, 3, 64, 16, Some((65, 0))),
            (IvMode::Tcw, 64, 1, 16, Some((3, 32))),
            (IvMode::Tcw, 8, 2, 8, Some((4, 24))),
            (IvMode::Random, 64, 1, 16, Some((1, 0))),
        ] {
            let layout = mode.key_layout(size_bytes, n_keys, iv_size).ok();
            assert_eq!(
                layout.map(|layout| (layout.parts, layout.extra_size_bytes)),
                expected
            );
        }
    }
}
