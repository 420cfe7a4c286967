// SPDX-License-Identifier: GPL-2.0

//! Memory of a pool comes from its source only.

use kscale::mm::mempool::Slot;

fn makes_up(slot: &mut u64) -> Slot<u64> {
    Slot(slot.into())
}
