// SPDX-License-Identifier: GPL-2.0

//! The diffuser of BitLocker, called Elephant: makes each bit of a sector depend on all others.
//!
//! It has no key. Its two parts go over the sector as over a ring of 32-bit numbers, and change
//! each number by two others, of which the second is rotated. See section 4.3 of "AES-CBC + Elephant
//! diffuser" by Niels Ferguson, 2006, where decryption is what goes forward.

#[cfg(kscale_kunit)]
use kernel::prelude::*;

/// What a part does.
struct Part {
    /// How often it goes over the sector.
    cycles: usize,
    /// Where the two others are, counted from the number that is changed; wraps.
    others: [usize; 2],
    /// By how many bits the second is rotated, which depends on the place in the ring.
    rotations: [u32; 4],
}

/// Looks back.
const A: Part = Part {
    cycles: 5,
    others: [0_usize.wrapping_sub(2), 0_usize.wrapping_sub(5)],
    rotations: [9, 0, 13, 0],
};

/// Looks ahead.
const B: Part = Part {
    cycles: 3,
    others: [2, 5],
    rotations: [0, 10, 0, 25],
};

/// Undoes [`decrypt()`].
pub(super) fn encrypt(sector: &mut [u8]) {
    let mut ring = Ring::new(sector);

    ring.backward(&A);
    ring.backward(&B);
}

/// Diffuses a sector, whose length in bytes is a power of two from 32 on.
pub(super) fn decrypt(sector: &mut [u8]) {
    let mut ring = Ring::new(sector);

    ring.forward(&B);
    ring.forward(&A);
}

/// A sector as little-endian numbers.
struct Ring<'a> {
    bytes: &'a mut [u8],
    /// One less than how many numbers there are, a power of two.
    mask: usize,
}

impl<'a> Ring<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        let mask = (bytes.len() / size_of::<u32>()).wrapping_sub(1);

        Self { bytes, mask }
    }

    /// Goes over the ring from its begin, and adds to each number.
    #[inline]
    fn forward(&mut self, part: &Part) {
        for _ in 0..part.cycles {
            for i in 0..=self.mask {
                self.set(i, self.get(i).wrapping_add(self.others(i, part)));
            }
        }
    }

    /// Goes over the ring from its end, and subtracts from each number.
    #[inline]
    fn backward(&mut self, part: &Part) {
        for _ in 0..part.cycles {
            for i in (0..=self.mask).rev() {
                self.set(i, self.get(i).wrapping_sub(self.others(i, part)));
            }
        }
    }

    /// Returns what the `i`th number is changed by.
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

        // OVERFLOW: It is a ring.
        self.get(i.wrapping_add(first)) ^ self.get(i.wrapping_add(second)).rotate_left(rotation)
    }

    /// Returns the `i`th number.
    #[inline]
    fn get(&self, i: usize) -> u32 {
        let start = (i & self.mask) * size_of::<u32>();

        self.bytes
            .get(start..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Replaces the `i`th number.
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

    /// Returns the pattern that the known answers are of.
    fn pattern(len: usize) -> Result<KVec<u8>> {
        let mut bytes = KVec::zeroed(len, GFP_KERNEL)?;

        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (i * 7 % 251) as u8;
        }
        Ok(bytes)
    }

    /// What a Python script says that was written after the paper: on lists of numbers, with `%` for
    /// the ring. The start of each sector, and the `zlib.crc32()` of all of it.
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
