// SPDX-License-Identifier: GPL-2.0

//! A bio in `end_io` is device mapper's unless it is deferred, so it must not be kept as it is.

use kernel::prelude::*;

use kscale::block::dm;

fn keeps<'a, T: dm::Target>(kept: &mut KVec<dm::EndBio<'static, T>>, bio: dm::EndBio<'a, T>) {
    let _ = kept.push(bio, GFP_ATOMIC);
}
