// SPDX-License-Identifier: GPL-2.0

//! What is encrypted elsewhere must not be written at the same time: there is a call for in place.

use kernel::prelude::*;

use kscale::{
    block::bio::SegmentMut,
    crypto::skcipher::Request, //
};

fn encrypts(request: &mut Request<'_>, data: SegmentMut<'_>, iv: &[u8]) -> Result {
    request.encrypt(data.as_segment(), data, iv)
}
