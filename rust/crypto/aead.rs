// SPDX-License-Identifier: GPL-2.0

//! Authenticated encryption with associated data.
//!
//! An [`Aead`] is a cipher and its key. Any number of threads can use it at once, each through its
//! own [`Request`]. A request encrypts a piece of data and generates a tag. With the tag,
//! decryption verifies the data, the initialisation vector and the associated data, which is
//! authenticated but not encrypted.
//!
//! Data is encrypted in place. Many ciphers read it more than once, so no other task or device
//! should write to the memory meanwhile. Concurrent writes are safe, but the tag then does not
//! match the data.
//!
//! A request waits for asynchronous drivers (`CRYPTO_ALG_ASYNC`). Not supported: drivers that
//! allocate memory for a request (`CRYPTO_ALG_ALLOCATES_MEMORY`), and data in more than one piece.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/aead.rs")]
//! ```
//!
//! C header: [`include/crypto/aead.h`](srctree/include/crypto/aead.h)

mod authenc;
mod request;
#[cfg(kscale_kunit)]
mod test_vectors;
mod tfm;

#[doc(inline)]
pub use self::{
    authenc::{
        digest_size,
        AuthencKey, //
    },
    request::Request,
    tfm::{
        Aead,
        MAX_ASSOCIATED_SIZE,
        MAX_KEY_SIZE,
        MAX_TAG_SIZE, //
    }, //
};
