// SPDX-License-Identifier: GPL-2.0

//! The key must not change while there is a queue, whose requests may use it.

use kernel::prelude::*;

use kscale::crypto::skcipher::Skcipher;

fn sets(cipher: &mut Skcipher, key: &[u8]) -> Result {
    cipher.queue(|_| cipher.set_key(key))
}
