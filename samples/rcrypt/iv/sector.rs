// SPDX-License-Identifier: GPL-2.0

//! IVs that depend only on the sector number.

use kernel::prelude::*;

use kscale::crypto::skcipher::{
    Request,
    MAX_IV_SIZE, //
};

use super::{
    Iv,
    IvOps,
    MIN_IV_SIZE, //
};

/// The way to generate the IV of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectorMode {
    /// The low 32 bits of the sector number, little endian. Repeats every 2 TiB.
    Plain,
    /// The sector number, little endian.
    Plain64,
    /// The sector number, big endian, at the end of the IV.
    Plain64be,
    /// As [`SectorMode::Plain64`]; the `essiv` template of the crypto API then encrypts the IV.
    Essiv,
    /// The number of the sector's first cipher block, counted from 1, big endian, at the end.
    Benbi {
        /// Binary logarithm of the number of cipher blocks in 512 bytes.
        shift: u32,
    },
    /// Zeros.
    Null,
}

/// A mode with the IV length of the cipher, in bytes.
pub(crate) struct SectorIv(SectorMode, usize);

impl IvOps for SectorIv {
    #[inline]
    fn generate(&mut self, _request: &mut Request<'_>, sector: u64) -> Result<Iv> {
        Ok(self.0.generate(sector, self.1))
    }
}

impl SectorMode {
    /// Returns the operations for a cipher with IVs of `iv_size` bytes.
    #[inline]
    pub(crate) fn ops(self, iv_size: usize) -> SectorIv {
        SectorIv(self, iv_size)
    }

    /// Returns the mode with the given name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "plain" => Some(Self::Plain),
            "plain64" => Some(Self::Plain64),
            "plain64be" => Some(Self::Plain64be),
            "essiv" => Some(Self::Essiv),
            "benbi" => Some(Self::Benbi { shift: 0 }),
            "null" => Some(Self::Null),
            _ => None,
        }
    }

    /// Adapts the mode to a cipher block size in bytes. Returns [`None`] if the size is not
    /// supported.
    pub(crate) fn for_block_size(self, block_size: usize) -> Option<Self> {
        match self {
            Self::Benbi { .. } if !block_size.is_power_of_two() => None,
            Self::Benbi { .. } => Some(Self::Benbi {
                shift: 9_u32.checked_sub(block_size.checked_ilog2()?)?,
            }),
            other => Some(other),
        }
    }

    /// Returns the IV of a sector for a cipher with IVs of `size` bytes.
    ///
    /// As in dm-crypt, the IV has at least eight bytes, and a cipher with shorter IVs uses
    /// the first bytes.
    #[inline]
    pub(crate) fn generate(self, sector: u64, size: usize) -> Iv {
        let sector = if cfg!(kscale_mutant = "iv_off_by_one") {
            sector.wrapping_add(1)
        } else {
            sector
        };

        match self {
            // CAST: The mode uses the lower half only.
            Self::Plain => at_start((sector as u32).to_le_bytes()),
            Self::Plain64 | Self::Essiv => at_start(sector.to_le_bytes()),
            Self::Plain64be => at_end(sector.to_be_bytes(), size),
            Self::Benbi { shift } => {
                // OVERFLOW: Wraps as in C.
                let block = sector.wrapping_shl(shift).wrapping_add(1);
                at_end(block.to_be_bytes(), size)
            }
            Self::Null => [0; MAX_IV_SIZE],
        }
    }
}

/// Returns an IV that starts with `bytes`.
#[inline]
fn at_start<const N: usize>(bytes: [u8; N]) -> Iv {
    let mut iv = [0; MAX_IV_SIZE];

    if let Some(start) = iv.first_chunk_mut() {
        *start = bytes;
    }
    iv
}

/// Returns an IV of `size` bytes that ends with `bytes`.
#[inline]
fn at_end(bytes: [u8; MIN_IV_SIZE], size: usize) -> Iv {
    let mut iv = [0; MAX_IV_SIZE];
    let end = size.clamp(MIN_IV_SIZE, MAX_IV_SIZE);

    if let Some(end) = iv.get_mut(..end).and_then(|iv| iv.last_chunk_mut()) {
        *end = bytes;
    }
    iv
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_iv_sector)]
mod tests {
    use super::*;

    /// Returns the IV of a sector for 16 bytes, or [`None`] if further bytes are not zero.
    fn generate(mode: SectorMode, sector: u64) -> Option<[u8; 16]> {
        let iv = mode.generate(sector, 16);
        let (first, rest) = iv.split_first_chunk()?;

        rest.iter().all(|&byte| byte == 0).then_some(*first)
    }

    const SECTOR: u64 = 0x0102_0304_0506_0708;

    #[test]
    fn known_answers() {
        for (mode, expected) in [
            (
                SectorMode::Plain,
                [8, 7, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (
                SectorMode::Plain64,
                [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (
                SectorMode::Essiv,
                [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (
                SectorMode::Plain64be,
                [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            ),
            (
                SectorMode::Benbi { shift: 8 },
                [0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 4, 5, 6, 7, 8, 1],
            ),
            (SectorMode::Null, [0; 16]),
        ] {
            assert_eq!(generate(mode, SECTOR), Some(expected));
        }
    }

    #[test]
    fn plain_repeats_after_32_bits_and_plain64_does_not() {
        let (low, high) = (7, 7 | 1 << 32);

        assert_eq!(
            generate(SectorMode::Plain, low),
            generate(SectorMode::Plain, high)
        );
        assert!(generate(SectorMode::Plain64, low) != generate(SectorMode::Plain64, high));
    }

    #[test]
    fn benbi_wraps() {
        let mode = SectorMode::Benbi { shift: 5 };

        assert_eq!(generate(mode, u64::MAX), generate(mode, u64::MAX >> 5));
    }

    #[test]
    fn benbi_counts_cipher_blocks() {
        for (block_size, expected) in [
            (16, Some(SectorMode::Benbi { shift: 5 })),
            (1, Some(SectorMode::Benbi { shift: 9 })),
            (512, Some(SectorMode::Benbi { shift: 0 })),
            (24, None),
            (0, None),
            (1024, None),
        ] {
            let mode = SectorMode::Benbi { shift: 0 };
            assert_eq!(mode.for_block_size(block_size), expected);
        }
    }

    #[test]
    fn short_ivs_are_computed_in_eight_bytes() {
        let iv = SectorMode::Plain64be.generate(SECTOR, 4);

        assert_eq!(iv.first_chunk(), Some(&[1, 2, 3, 4, 5, 6, 7, 8]));
    }
}
