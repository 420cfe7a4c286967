// SPDX-License-Identifier: GPL-2.0

//! Data is encrypted in place, so it must be memory that may be written.

use kernel::prelude::*;

use kscale::{
    block::bio::Segment,
    crypto::aead::Request, //
};

fn encrypts(request: &mut Request<'_>, data: Segment<'_>, tag: &mut [u8]) -> Result {
    request.encrypt(data, &[], &[0; 12], tag)
}
