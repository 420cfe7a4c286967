// SPDX-License-Identifier: GPL-2.0

//! Authenticated encryption with associated data.
//!
//! An [`Aead`] is a cipher and its key, which any number of threads can use at once, each through a
//! [`Request`] of its own. A request encrypts a piece of data and makes a tag, by which decryption
//! finds out whether the data, the tag, the initialisation vector and the associated data, which is
//! not encrypted, are all as they were.
//!
//! Data is encrypted in place. Many ciphers read it more than once, so it must be memory that
//! nobody else writes to: otherwise the tag is not that of the data. It is safe, though.
//!
//! Drivers that finish a request later (`CRYPTO_ALG_ASYNC`) are waited for. Not supported: drivers
//! that allocate for a request (`CRYPTO_ALG_ALLOCATES_MEMORY`), and data in more than one piece.
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
        MAX_TAG_SIZE, //
    }, //
};
