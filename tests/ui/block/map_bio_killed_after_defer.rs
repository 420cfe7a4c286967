// SPDX-License-Identifier: GPL-2.0

//! A bio that was deferred has an owner, so device mapper must not be told to end it.

use kscale::block::dm;

fn defers<'a, T: dm::Target>(bio: dm::MapBio<'a, T>, keep: fn(dm::Bio<T>)) -> dm::MapResult<'a, T> {
    let _ = bio.defer(keep);
    bio.kill()
}
