// SPDX-License-Identifier: GPL-2.0

//! A request uses its cipher, and the pool that the cipher keeps for it, so it must not outlive that.

use kernel::prelude::*;

use kscale::{
    crypto::aead::{
        Aead,
        Request, //
    },
    mm::gfp::Gfp, //
};

fn drops_cipher(cipher: Aead, uses: fn(Request<'_>)) -> Result {
    let request = cipher.request(Gfp::NOIO)?;
    drop(cipher);
    uses(request);
    Ok(())
}
