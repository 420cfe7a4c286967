// SPDX-License-Identifier: GPL-2.0

//! A bio that is done is device mapper's, so it must not be touched.

use kscale::block::dm;

fn uses<'a, T: dm::Target>(mut bio: dm::EndBio<'a, T>) -> dm::EndIoResult<'a, T> {
    let end_io = bio.done();
    bio.data();
    end_io
}
