// SPDX-License-Identifier: GPL-2.0

//! A request has one set of scratch memory, so two tasks must not use it at once.

use kernel::prelude::*;

use kscale::{
    block::bio::SegmentMut,
    crypto::skcipher::Request, //
};

fn encrypts(request: &Request<'_>, data: SegmentMut<'_>, iv: &[u8]) -> Result {
    request.encrypt_in_place(data, iv)
}
