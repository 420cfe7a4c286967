// SPDX-License-Identifier: GPL-2.0

//! Memory of a pool comes from its source only.

use kscale::mm::mempool::RawElement;

fn makes_up(slot: &mut u64) -> RawElement<u64> {
    RawElement(slot.into())
}
