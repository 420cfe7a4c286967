// SPDX-License-Identifier: GPL-2.0

//! The key must not change while there is a request, which may use it.

use kernel::prelude::*;

use kscale::{
    crypto::aead::{
        Aead,
        Request, //
    },
    mm::gfp::Gfp, //
};

fn sets(cipher: &mut Aead, key: &[u8], uses: fn(Request<'_>)) -> Result {
    let request = cipher.request(Gfp::NOIO)?;
    cipher.set_key(key)?;
    uses(request);
    Ok(())
}
