// SPDX-License-Identifier: GPL-2.0

//! Other threads may use the cipher, so tags must not change their size through `&Aead`.

use kernel::prelude::*;

use kscale::crypto::aead::Aead;

fn sets(cipher: &Aead) -> Result {
    cipher.set_tag_size(12)
}
