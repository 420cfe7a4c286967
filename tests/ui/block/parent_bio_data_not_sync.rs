// SPDX-License-Identifier: GPL-2.0

//! The completion functions of several clones run at the same time, so they share the per-bio data
//! only if it is `Sync`.

use core::cell::Cell;

use kscale::block::dm;

fn counts<T: dm::Target<PerBio = Cell<u64>>>(parent: dm::IrqParentBio<T>) {
    parent.data().set(1);
}
