// SPDX-License-Identifier: GPL-2.0

//! The pages of a write are the writer's, so nothing must be decrypted into them.

use kernel::prelude::*;

use kscale::{
    block::bio::Segment,
    crypto::skcipher::Request, //
};

fn decrypts(request: &mut Request<'_>, data: Segment<'_>, iv: &[u8]) -> Result {
    request.decrypt_in_place(data, iv)
}
