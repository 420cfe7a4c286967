// SPDX-License-Identifier: GPL-2.0

//! Who could keep a queue could forget it, and nobody would wait.

use kernel::prelude::*;

use kscale::crypto::skcipher::{
    Queue,
    Skcipher, //
};

fn keeps<'d>(cipher: &'d Skcipher, kept: &mut Option<&'d mut Queue<'d>>) -> Result {
    cipher.queue(|queue| {
        *kept = Some(queue);
        Ok(())
    })
}
