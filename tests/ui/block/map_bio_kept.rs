// SPDX-License-Identifier: GPL-2.0

//! A bio in `map` is device mapper's unless it is deferred, so it must not be kept as it is.

use kernel::prelude::*;

use kscale::block::dm;

fn keeps<'a, T: dm::Target>(kept: &mut KVec<dm::MapBio<'static, T>>, bio: dm::MapBio<'a, T>) {
    let _ = kept.push(bio, GFP_KERNEL);
}
