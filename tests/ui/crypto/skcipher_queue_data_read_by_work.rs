// SPDX-License-Identifier: GPL-2.0

//! The cipher may write to data as long as the queue lives.

use kernel::prelude::*;

use kscale::{
    crypto::skcipher::Skcipher,
    mm::page::FilledPage, //
};

fn reads(cipher: &Skcipher, page: &mut FilledPage) -> Result<Option<u8>> {
    let mut byte = None;
    cipher.queue(|queue| {
        queue.decrypt_in_place(page.segment_mut(0, 512).ok_or(EINVAL)?, &[0; 16])?;
        byte = page.as_slice().first().copied();
        Ok(())
    })?;
    Ok(byte)
}
