// SPDX-License-Identifier: GPL-2.0

//! Ciphers, keys, and requests to the crypto API.
//!
//! [`skcipher`] and [`aead`] encrypt data with a cipher of any driver. [`secret`] has key material,
//! which is wiped when it is dropped, and [`keyring`] copies it from the kernel's keyrings. [`aes`]
//! and [`md5`] call the library functions that formats need, without the crypto API.
//!
//! C headers: [`include/crypto`](srctree/include/crypto),
//! [`include/linux/key.h`](srctree/include/linux/key.h)

pub mod aead;
pub mod aes;
pub mod fips;
#[cfg(CONFIG_KEYS)]
pub mod keyring;
pub mod md5;
mod request_buf;
pub mod secret;
pub mod skcipher;
