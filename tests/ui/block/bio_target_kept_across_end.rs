// SPDX-License-Identifier: GPL-2.0

//! The target may be freed once the bio ended, so it must not be borrowed any longer.

use kscale::block::dm;

fn uses<T: dm::Target>(bio: dm::Bio<T>, uses: fn(&T)) {
    let target = bio.target();
    bio.end(Ok(()));
    uses(&target);
}
