// SPDX-License-Identifier: GPL-2.0

//! A bio that was deferred has an owner, so device mapper must not be told that it is done.

use kscale::block::dm;

fn defers<'a, T: dm::Target>(
    bio: dm::EndBio<'a, T>,
    keep: fn(dm::IrqBio<T>),
) -> dm::EndIoResult<'a, T> {
    let _ = bio.defer(keep);
    bio.done()
}
