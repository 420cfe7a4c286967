// SPDX-License-Identifier: GPL-2.0

//! The target may be freed once the bio is done, so it must not be borrowed any longer.

use kscale::block::dm;

fn uses<'a, T: dm::Target>(bio: dm::EndBio<'a, T>, uses: fn(&T)) -> dm::EndIoResult<'a, T> {
    let target = bio.target();
    let end_io = bio.done();
    uses(&target);
    end_io
}
