// SPDX-License-Identifier: GPL-2.0

//! The key must not change while there is a request, which may use it.

use kernel::prelude::*;

use kscale::crypto::skcipher::{
    Request,
    Skcipher, //
};

fn sets(cipher: &mut Skcipher, key: &[u8], uses: fn(Request<'_>)) -> Result {
    let request = cipher.request();
    cipher.set_key(key)?;
    uses(request);
    Ok(())
}
