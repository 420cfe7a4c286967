// SPDX-License-Identifier: GPL-2.0

//! A clone is freed when the bio that it stands for is taken back.

use kscale::block::dm;

fn uses<T: dm::Target>(mut clone: dm::CloneBio<T>) {
    clone.into_base().end(Ok(()));
    clone.segments();
}
