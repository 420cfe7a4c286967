// SPDX-License-Identifier: GPL-2.0

//! The state of the MD5 hash.
//!
//! For legacy formats, such as that of Loop-AES. Loop-AES uses the raw state, without the padding
//! that a digest includes. Do not use MD5 in new formats: it is not secure.
//!
//! C header: [`include/crypto/md5.h`](srctree/include/crypto/md5.h)

use kernel::prelude::*;

use core::mem::MaybeUninit;

use crate::bindings;

/// The size of a state in bytes.
pub const STATE_SIZE: usize = 16;

/// The size of a message block in bytes.
pub const BLOCK_SIZE: usize = 64;

/// A message under hashing, wiped on drop.
///
/// # Invariants
///
/// `ctx` was initialised by `md5_init()`, and only changed by `md5_update()`.
pub struct Md5 {
    ctx: bindings::md5_ctx,
}

impl Md5 {
    /// Starts an empty message.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn new() -> Self {
        let mut ctx = MaybeUninit::zeroed();

        // SAFETY: `ctx` is valid for writes.
        unsafe { bindings::md5_init(ctx.as_mut_ptr()) };
        // INVARIANT: Just initialised.
        Self {
            // SAFETY: All-zero bytes are a valid value of each field, and `md5_init()` writes valid
            // values.
            ctx: unsafe { ctx.assume_init() },
        }
    }

    /// Appends to the message.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        // SAFETY:
        // - `ctx` is initialised by the type invariants.
        // - `bytes` is valid for reads of its length.
        unsafe { bindings::md5_update(&mut self.ctx, bytes.as_ptr(), bytes.len()) };
    }

    /// Returns the state after all complete blocks of [`BLOCK_SIZE`] bytes.
    ///
    /// Bytes of an incomplete block are not included.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn state(&self) -> [u8; STATE_SIZE] {
        let mut state = [0; STATE_SIZE];

        for (bytes, word) in state.chunks_exact_mut(4).zip(self.ctx.state.h) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        state
    }
}

impl Default for Md5 {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Md5 {
    #[inline]
    fn clone(&self) -> Self {
        // INVARIANT: As `self`.
        Self {
            ctx: bindings::md5_ctx {
                state: bindings::md5_block_state {
                    h: self.ctx.state.h,
                },
                bytecount: self.ctx.bytecount,
                buf: self.ctx.buf,
            },
        }
    }
}

impl Drop for Md5 {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `ctx` is valid for writes, and not used again.
        unsafe {
            bindings::memzero_explicit((&raw mut self.ctx).cast(), size_of::<bindings::md5_ctx>())
        };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_md5)]
mod tests {
    use super::*;

    /// Returns the digest of a message that fits into a single block with its padding.
    fn digest(message: &[u8]) -> Result<[u8; STATE_SIZE]> {
        let mut block = [0; BLOCK_SIZE];
        let (start, len) = block.split_at_mut(BLOCK_SIZE - 8);
        let (text, end) = start.split_at_mut_checked(message.len()).ok_or(EINVAL)?;
        text.copy_from_slice(message);
        *end.first_mut().ok_or(EINVAL)? = 0x80;
        len.copy_from_slice(&(8 * message.len() as u64).to_le_bytes());

        let mut md5 = Md5::new();
        md5.update(&block);
        Ok(md5.state())
    }

    #[test]
    fn known_answers() -> Result {
        // RFC 1321, A.5.
        for (message, expected) in [
            (&b""[..], 0xd41d8cd98f00b204e9800998ecf8427e_u128),
            (b"abc", 0x900150983cd24fb0d6963f7d28e17f72),
            (b"message digest", 0xf96b697d7cb7938d525a2f31aaf161d0),
        ] {
            assert!(digest(message)? == expected.to_be_bytes());
        }
        Ok(())
    }

    #[test]
    fn state_covers_whole_blocks() {
        let mut whole = Md5::new();
        whole.update(&[7; 2 * BLOCK_SIZE]);

        let mut parts = Md5::default();
        let empty = parts.state();
        parts.update(&[7; 60]);
        assert!(parts.state() == empty);
        parts.update(&[7; 2 * BLOCK_SIZE - 60]);
        assert!(parts.state() == whole.state());
        parts.update(&[7; 63]);
        assert!(parts.state() == whole.state());
    }

    #[test]
    fn drop_wipes_the_message() {
        let mut memory = MaybeUninit::new(Md5::new());
        // SAFETY: `memory` holds a value.
        unsafe { memory.assume_init_mut() }.update(&[7; 100]);
        // SAFETY: As above, and the value is not used again.
        unsafe { memory.assume_init_drop() };

        // SAFETY: `memset()` has written all of its bytes.
        let bytes: [u8; size_of::<Md5>()] = unsafe { core::mem::transmute(memory) };
        assert!(bytes == [0; size_of::<Md5>()]);
    }

    #[test]
    fn clones_are_independent() {
        // With and without bytes of an incomplete block.
        for len in [0, 64, 100] {
            let mut start = Md5::new();
            start.update(&[1; 100][..len]);
            let mut other = start.clone();
            let before = start.state();

            other.update(&[2; BLOCK_SIZE]);
            assert!(start.state() == before);
            start.update(&[2; BLOCK_SIZE]);
            assert!(start.state() == other.state());
        }
    }
}
