// SPDX-License-Identifier: GPL-2.0

//! What becomes of a bio must not be kept, or it could be returned for a later one.

use kernel::prelude::*;

use kscale::block::dm;

fn keeps<'a, T: dm::Target>(kept: &mut KVec<dm::MapResult<'static, T>>, bio: dm::MapBio<'a, T>) {
    let _ = kept.push(bio.kill(), GFP_KERNEL);
}
