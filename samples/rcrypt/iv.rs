// SPDX-License-Identifier: GPL-2.0

//! Initialisation vectors: what makes equal sectors look different on the device.
//!
//! The modes are dm-crypt's, `crypt_iv_*()` in `drivers/md/dm-crypt.c`, each in a file of its own:
//!
//! - `sector.rs`: benbi, essiv, null, plain, plain64 and plain64be make the vector of the number of
//!   the sector, and nothing else.
//! - `eboiv.rs`: BitLocker encrypts the number.
//! - `elephant.rs`: older BitLocker does so, and mixes the bytes of each sector.
//! - `lmk.rs`: Loop-AES hashes the sector.
//! - `tcw.rs`: old TrueCrypt has a seed, and whitens what it encrypted.
//!
//! - `random.rs`: a vector is random, and kept beside its sector.
//!
//! A [`Mode`] is what the table line asks for, a [`Generator`] is one with its part of the key, and
//! a [`Walk`] is what it does to the sectors of one bio, so that modes that do nothing to the data
//! cost nothing for that.

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
mod random;
mod sector;
mod tcw;

pub(crate) use self::{
    eboiv::Eboiv,
    elephant::Elephant,
    lmk::Lmk,
    random::{
        KeptVectors,
        NewVectors, //
    },
    sector::SectorMode,
    tcw::Tcw, //
};

/// An initialisation vector, and room for the longest.
pub(crate) type Iv = [u8; MAX_IV_SIZE];

/// The shortest vector that modes make, in bytes: room for the number of a sector. A cipher that
/// takes less gets the first bytes of it.
pub(crate) const MIN_IV_SIZE: usize = 8;

/// What is encrypted.
pub(crate) enum Input {
    /// The data.
    Source,
    /// What the mode has put at the destination.
    Destination,
}

/// What a mode does to the sectors of a bio, before and after the cipher.
///
/// `sector` is what the vector is made of: a number of sectors, the offset included. `request` is
/// that which the sector will be encrypted or decrypted by.
pub(crate) trait Walk {
    /// Prepares a sector for encryption, and returns its vector.
    fn before_encrypt(
        &mut self,
        request: &mut Request<'_>,
        sector: u64,
        src: Segment<'_>,
        dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)>;

    /// Returns what is added to every vector, if that is a part of the key.
    ///
    /// It is added at the last moment, and the sum is wiped: what is returned from one function to
    /// another may leave copies on the stack.
    #[inline]
    fn iv_seed(&self) -> Option<&[u8]> {
        None
    }

    /// Finishes a sector that was encrypted.
    #[inline]
    fn after_encrypt(&mut self, _sector: u64, _dst: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }

    /// Prepares a sector for decryption, and returns its vector.
    fn before_decrypt(
        &mut self,
        request: &mut Request<'_>,
        sector: u64,
        data: &mut SegmentMut<'_>,
    ) -> Result<Iv>;

    /// Finishes a sector that was decrypted.
    #[inline]
    fn after_decrypt(&mut self, _sector: u64, _data: &mut SegmentMut<'_>) -> Result {
        Ok(())
    }
}

/// A mode by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Sector(SectorMode),
    Eboiv,
    Elephant,
    Lmk,
    Tcw,
    Random,
}

/// What a mode is fitted to.
pub(crate) struct Params<'a> {
    /// All of the key.
    pub(crate) key: &'a [u8],
    /// How many bytes of it are the mode's.
    pub(crate) extra_len: usize,
    /// How many ciphers have the rest.
    pub(crate) n_keys: usize,
    /// What the ciphers take, in bytes.
    pub(crate) iv_size: usize,
    /// The ciphers' blocks, in bytes.
    pub(crate) block_size: usize,
    pub(crate) options: &'a Options,
}

impl Mode {
    /// Returns the mode of that name.
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

    /// Returns what a key of `size_bytes` consists of, for `n_keys` ciphers with vectors of
    /// `iv_size` bytes.
    ///
    /// Fails as dm-crypt does, without a message, if there is more than the mode takes.
    pub(crate) fn key_layout(
        self,
        size_bytes: u32,
        n_keys: u32,
        iv_size: u32,
    ) -> Result<KeyLayout, CtrError> {
        let (parts, extra_size_bytes) = match self {
            // The keys of the ciphers count as one.
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

    /// Fits the mode to ciphers that have their keys.
    ///
    /// Fails with dm-crypt's messages, which do not tell what is wrong.
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

/// What makes the vectors of a target. What it has of the key is wiped on drop.
pub(crate) enum Generator {
    Sector(SectorMode),
    /// As the other, for a cipher that may work on several sectors at once.
    Queued(SectorMode),
    Eboiv(Eboiv),
    Elephant(Elephant),
    Lmk(Lmk),
    Tcw(Tcw),
    /// Vectors are random, and kept in the integrity metadata of the device below.
    Random,
}

impl Generator {
    /// Has sectors be queued, if each can be done without the others.
    pub(crate) fn queued(self) -> Self {
        match self {
            Self::Sector(mode) => Self::Queued(mode),
            other => other,
        }
    }

    /// Replaces the key by one of the same length. Allocates nothing.
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result {
        match self {
            Self::Elephant(mode) => mode.set_key(key),
            Self::Lmk(mode) => mode.set_key(key),
            Self::Tcw(mode) => mode.set_key(key),
            Self::Sector(_) | Self::Queued(_) | Self::Eboiv(_) | Self::Random => Ok(()),
        }
    }
}

/// Makes `a` the exclusive or of both, as far as both have bytes.
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
            // Loop-AES 1, 2 and 3.
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
