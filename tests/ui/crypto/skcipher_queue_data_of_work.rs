// SPDX-License-Identifier: GPL-2.0

//! A queue is waited for when its work is done, so data must not be gone by then.

use kernel::prelude::*;

use kscale::{
    crypto::skcipher::Skcipher,
    mm::{
        gfp::Gfp,
        page::FilledPage, //
    }, //
};

fn drops_page(cipher: &Skcipher) -> Result {
    cipher.queue(|queue| {
        let mut page: FilledPage = FilledPage::zeroed(Gfp::NOIO)?;
        queue.decrypt_in_place(page.segment_mut(0, 512).ok_or(EINVAL)?, &[0; 16])
    })
}
