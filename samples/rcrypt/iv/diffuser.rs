// SPDX-License-Identifier: GPL-2.0

//! The Elephant diffuser of BitLocker, which makes each bit of a sector depend on all others.
//!
//! It has no key. Its two components treat the sector as a ring of 32-bit words. A component
//! changes each word by two other words, the second of which is rotated. See section 4.3 of
//! "AES-CBC + Elephant diffuser" by Niels Ferguson, 2006. There, decryption is the forward
//! direction.

#[cfg(kscale_kunit)]
use kernel::prelude::*;

/// A component of the diffuser.
struct Part {
    /// Number of passes over the sector.
    cycles: usize,
    /// Offsets of the other two words from the changed word; wrap.
    others: [usize; 2],
    /// Rotation of the second word in bits, by the index of the changed word modulo 4.
    rotations: [u32; 4],
}

/// Component A, which uses earlier words.
const A: Part = Part {
    cycles: 5,
    others: [0_usize.wrapping_sub(2), 0_usize.wrapping_sub(5)],
    rotations: [9, 0, 13, 0],
};

/// Component B, which uses later words.
const B: Part = Part {
    cycles: 3,
    others: [2, 5],
    rotations: [0, 10, 0, 25],
};

/// Reverts [`decrypt()`].
pub(super) fn encrypt(sector: &mut [u8]) {
    let mut ring = Ring::new(sector);

    ring.backward(&A);
    ring.backward(&B);
}

/// Diffuses a sector. Its length in bytes is a power of two, at least 32.
pub(super) fn decrypt(sector: &mut [u8]) {
    let mut ring = Ring::new(sector);

    ring.forward(&B);
    ring.forward(&A);
}

/// A sector as little-endian words.
struct Ring<'a> {
    bytes: &'a mut [u8],
    /// Number of words, a power of two, minus one.
    mask: usize,
}

impl<'a> Ring<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        let mask = (bytes.len() / size_of::<u32>()).wrapping_sub(1);

        Self { bytes, mask }
    }

    /// Passes over the ring from its start and adds to each word.
    #[inline]
    fn forward(&mut self, part: &Part) {
        for _ in 0..part.cycles {
            for i in 0..=self.mask {
                self.set(i, self.get(i).wrapping_add(self.others(i, part)));
            }
        }
    }

    /// Passes over the ring from its end and subtracts from each word.
    #[inline]
    fn backward(&mut self, part: &Part) {
        for _ in 0..part.cycles {
            for i in (0..=self.mask).rev() {
                self.set(i, self.get(i).wrapping_sub(self.others(i, part)));
            }
        }
    }

    /// Returns the value by which word `i` changes.
    #[inline]
    fn others(&self, i: usize, part: &Part) -> u32 {
        let [first, second] = part.others;
        let [r0, r1, r2, r3] = part.rotations;
        let rotation = match i % 4 {
            0 => r0,
            1 => r1,
            2 => r2,
            _ => r3,
        };

        // OVERFLOW: Indices wrap around the ring.
        self.get(i.wrapping_add(first)) ^ self.get(i.wrapping_add(second)).rotate_left(rotation)
    }

    /// Returns word `i`.
    #[inline]
    fn get(&self, i: usize) -> u32 {
        let start = (i & self.mask) * size_of::<u32>();

        self.bytes
            .get(start..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Replaces word `i`.
    #[inline]
    fn set(&mut self, i: usize, value: u32) {
        let start = (i & self.mask) * size_of::<u32>();

        if let Some(bytes) = self
            .bytes
            .get_mut(start..)
            .and_then(|bytes| bytes.first_chunk_mut())
        {
            *bytes = value.to_le_bytes();
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_iv_diffuser)]
mod tests {
    use super::*;

    use kscale::lib::crc32::crc32;

    /// Returns the input of the known-answer tests.
    fn pattern(len: usize) -> Result<KVec<u8>> {
        let mut bytes = KVec::zeroed(len, GFP_KERNEL)?;

        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (i * 7 % 251) as u8;
        }
        Ok(bytes)
    }

    /// Computed by a Python script written from the paper, with lists of words and `%` for the
    /// ring. Each row has the start of the sector and the `zlib.crc32()` of the whole sector.
    #[test]
    fn known_answers() -> Result {
        for (len, start, sum) in [
            (512, 0xa434fd1cfa33cd3bef0c7111916bc781_u128, 0xb3a7_8db7),
            (4096, 0xa77ce33a70992238648245a545695677, 0x0218_7dd8),
        ] {
            let mut sector = pattern(len)?;

            encrypt(&mut sector);
            assert_eq!(sector.first_chunk(), Some(&start.to_be_bytes()));
            assert_eq!(!crc32(!0, &sector), sum);
        }
        Ok(())
    }

    #[test]
    fn decryption_is_the_inverse_of_encryption() -> Result {
        for len in [32, 512, 1024, 2048, 4096] {
            let mut sector = pattern(len)?;

            encrypt(&mut sector);
            assert!(*sector != *pattern(len)?);
            decrypt(&mut sector);
            assert!(*sector == *pattern(len)?);
        }
        Ok(())
    }
}
