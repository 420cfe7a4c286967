// SPDX-License-Identifier: GPL-2.0

//! Clones in flight use the memory of the parent, so a reference to it cannot write the memory.

use kscale::block::dm;

fn writes<T: dm::Target>(mut parent: dm::ParentBio<T>) {
    let _ = parent.segments_mut();
}
