// SPDX-License-Identifier: GPL-2.0

//! A bio that has ended is not the target's any more, wherever it was ended.

use kscale::block::dm;

fn uses<T: dm::Target>(mut bio: dm::IrqBio<T>) {
    bio.end(Ok(()));
    let _ = bio.data();
}
