// SPDX-License-Identifier: GPL-2.0

//! A request uses its cipher, so it must not outlive that.

use kscale::crypto::skcipher::{
    Request,
    Skcipher, //
};

fn drops_cipher(cipher: Skcipher, uses: fn(Request<'_>)) {
    let request = cipher.request();
    drop(cipher);
    uses(request);
}
