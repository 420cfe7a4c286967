// SPDX-License-Identifier: GPL-2.0

//! The data of a bio is freed with it, so it must not be borrowed any longer.

use kscale::block::dm;

fn uses<T: dm::Target<PerBio = u64>>(mut bio: dm::Bio<T>) -> u64 {
    let data = bio.data();
    bio.end(Ok(()));
    *data
}
