// SPDX-License-Identifier: GPL-2.0

//! Initialisation vectors, which make equal sectors differ on the device.
//!
//! The modes are those of dm-crypt, `crypt_iv_*()` in `drivers/md/dm-crypt.c`, one file each:
//!
//! - `sector.rs`: benbi, essiv, null, plain, plain64 and plain64be. The vector depends only on the
//!   sector number.
//! - `eboiv.rs`: BitLocker. The vector is the encrypted byte offset.
//! - `elephant.rs`: BitLocker before Windows 8. As eboiv, and a diffuser mixes the bytes of a
//!   sector.
//! - `lmk.rs`: Loop-AES. The vector is a hash of the sector.
//! - `tcw.rs`: TrueCrypt before 4.1. The vector has a seed, and the ciphertext is whitened.
//! - `stored.rs`: a random vector, stored beside its sector.
//!
//! A [`Mode`] is the mode that the table line names. A [`Generator`] is a mode with its part of the
//! key. A [`Walk`] applies a mode to the sectors of one bio; its hooks cost nothing for a mode that
//! does not change the data.

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
    stored::{
        KeptVectors,
        NewVectors, //
    },
    tcw::Tcw, //
};

/// An initialisation vector, in a buffer for the longest vector.
pub(crate) type Iv = [u8; MAX_IV_SIZE];

/// Minimum length of a generated vector in bytes: a sector number fits. A cipher with shorter
/// vectors uses the first bytes.
pub(crate) const MIN_IV_SIZE: usize = 8;

/// The input of the cipher.
pub(crate) enum Input {
    /// The cipher reads the source.
    Source,
    /// The cipher reads the destination, where the mode stored its input.
    Destination,
}

/// The steps of a mode before and after the cipher, for the sectors of a bio.
///
/// The vector is generated from `sector`, which includes the IV offset. `request` is the cipher
/// request of the sector.
pub(crate) trait Walk {
    /// Prepares a sector for encryption and returns its vector.
    fn before_encrypt(
        &mut self,
        request: &mut Request<'_>,
        sector: u64,
        src: Segment<'_>,
        dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)>;

    /// Returns a part of the key that the caller XORs into every vector, or [`None`].
    ///
    /// The caller XORs it immediately before use and wipes the result: a vector that a function
    /// returns may leave copies on the stack.
    #[inline]
    fn iv_seed(&self) -> Option<&[u8]> {
        None
    }

    /// Runs after the encryption of a sector.
    #[inline]
    fn after_encrypt(&mut self, _sector: u64, _dst: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }

    /// Prepares a sector for decryption and returns its vector.
    fn before_decrypt(
        &mut self,
        request: &mut Request<'_>,
        sector: u64,
        data: &mut SegmentMut<'_>,
    ) -> Result<Iv>;

    /// Runs after the decryption of a sector.
    #[inline]
    fn after_decrypt(&mut self, _sector: u64, _data: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }
}

/// An IV mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
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
    /// Vector length of the ciphers, in bytes.
    pub(crate) iv_size: usize,
    /// Block size of the ciphers, in bytes.
    pub(crate) block_size: usize,
    pub(crate) options: &'a Options,
}

impl Mode {
    /// Returns the mode with the given name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "eboiv" => Some(Self::Eboiv),
            "elephant" => Some(Self::Elephant),
            "lmk" => Some(Self::Lmk),
            "random" => Some(Self::Random),
            "tcw" => Some(Self::Tcw),
            _ => SectorMode::from_name(name).map(Self::Sector),
        }
    }

    /// Returns the layout of a key of `size_bytes`, for `n_keys` ciphers with vectors of `iv_size`
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

    /// Creates the generator for ciphers that have their keys.
    ///
    /// Errors carry the messages of dm-crypt, which do not specify the cause.
    pub(crate) fn generator(self, params: &Params<'_>) -> Result<Generator, CtrError> {
        const UNFIT: CtrError = CtrError::invalid(c"Error creating IV");
        let unfit = |error| CtrError::new(c"Error creating IV", error);

        Ok(match self {
            Self::Sector(mode) => {
                Generator::Sector(mode.for_block_size(params.block_size).ok_or(UNFIT)?)
            }
            Self::Eboiv => Generator::Eboiv(Eboiv::new(params).map_err(unfit)?),
            Self::Elephant => {
                let eboiv = Eboiv::new(params).map_err(unfit)?;
                Generator::Elephant(
                    Elephant::new(params, eboiv)
                        .map_err(|error| CtrError::new(c"Error initialising IV", error))?,
                )
            }
            Self::Lmk => Generator::Lmk(Lmk::new(params).map_err(unfit)?),
            Self::Tcw => Generator::Tcw(Tcw::new(params).map_err(unfit)?),
            Self::Random => Generator::Random,
        })
    }
}

/// The vector generator of a target. Its part of the key is wiped on drop.
pub(crate) enum Generator {
    Sector(SectorMode),
    /// As `Sector`, for a cipher with several requests in flight.
    Queued(SectorMode),
    Eboiv(Eboiv),
    Elephant(Elephant),
    Lmk(Lmk),
    Tcw(Tcw),
    /// Random vectors, stored in the integrity metadata of the device.
    Random,
}

impl Generator {
    /// Selects the variant with several requests in flight, if sectors are independent.
    pub(crate) fn queued(self) -> Self {
        match self {
            Self::Sector(mode) => Self::Queued(mode),
            other => other,
        }
    }

    /// Replaces the key by another key of the same length. Allocates no memory.
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result {
        match self {
            Self::Elephant(mode) => mode.set_key(key),
            Self::Lmk(mode) => mode.set_key(key),
            Self::Tcw(mode) => mode.set_key(key),
            Self::Sector(_) | Self::Queued(_) | Self::Eboiv(_) | Self::Random => Ok(()),
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
            assert_eq!(Mode::from_name(name), None);
        }
        assert_eq!(
            Mode::from_name("plain64"),
            Some(Mode::Sector(SectorMode::Plain64))
        );
        assert_eq!(Mode::from_name("eboiv"), Some(Mode::Eboiv));
        assert_eq!(Mode::from_name("elephant"), Some(Mode::Elephant));
        assert_eq!(Mode::from_name("lmk"), Some(Mode::Lmk));
        assert_eq!(Mode::from_name("random"), Some(Mode::Random));
        assert_eq!(Mode::from_name("tcw"), Some(Mode::Tcw));
    }

    #[test]
    fn keys_are_divided_as_by_dm_crypt() {
        for (mode, size_bytes, n_keys, iv_size, expected) in [
            (Mode::Sector(SectorMode::Plain64), 64, 2, 16, Some((2, 0))),
            (Mode::Eboiv, 32, 1, 16, Some((1, 0))),
            (Mode::Elephant, 32, 1, 16, Some((2, 16))),
            (Mode::Elephant, 33, 1, 16, Some((2, 16))),
            (Mode::Elephant, 65, 4, 16, Some((2, 32))),
            (Mode::Elephant, 66, 1, 16, None),
            // Loop-AES versions 1, 2 and 3.
            (Mode::Lmk, 33, 1, 16, Some((1, 0))),
            (Mode::Lmk, 64 * 16, 64, 16, Some((64, 0))),
            (Mode::Lmk, 65 * 16, 64, 16, Some((65, 16))),
            (Mode::Lmk, 65 * 16 + 3, 64, 16, Some((65, 16))),
            (Mode::Lmk, 3, 64, 16, Some((65, 0))),
            (Mode::Tcw, 64, 1, 16, Some((3, 32))),
            (Mode::Tcw, 8, 2, 8, Some((4, 24))),
            (Mode::Random, 64, 1, 16, Some((1, 0))),
        ] {
            let layout = mode.key_layout(size_bytes, n_keys, iv_size).ok();
            assert_eq!(
                layout.map(|layout| (layout.parts, layout.extra_size_bytes)),
                expected
            );
        }
    }
}
