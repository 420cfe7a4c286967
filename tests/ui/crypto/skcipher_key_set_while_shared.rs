// SPDX-License-Identifier: GPL-2.0

//! The key must not change while others encrypt with it.

use kernel::prelude::*;

use kscale::crypto::skcipher::Skcipher;

fn sets(cipher: &Skcipher, key: &[u8]) -> Result {
    cipher.set_key(key)
}
