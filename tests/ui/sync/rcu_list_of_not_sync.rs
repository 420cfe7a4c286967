// SPDX-License-Identifier: GPL-2.0

//! Walks of several tasks see the same value, so it must be [`Sync`].

use core::cell::Cell;

use kscale::sync::rcu_list::List;

fn shares<T: Sync>() {}

fn shares_cell() {
    shares::<List<Cell<u32>>>();
}
