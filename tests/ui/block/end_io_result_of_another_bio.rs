// SPDX-License-Identifier: GPL-2.0

//! What becomes of one bio must not be returned for another, which would be lost.

use kscale::block::dm;

fn mixes_up<'a, 'b, T: dm::Target>(
    bio: dm::EndBio<'a, T>,
    other: dm::EndBio<'b, T>,
) -> dm::EndIoResult<'a, T> {
    let _ = bio.done();
    other.done()
}
