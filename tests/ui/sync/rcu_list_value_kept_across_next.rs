// SPDX-License-Identifier: GPL-2.0

//! A walk has a reference to one value at a time.

use kscale::sync::rcu_list::Walk;

fn keeps(walk: &mut Walk<'_, u32>, uses: fn(Option<&u32>)) {
    let first = walk.next();
    walk.next();
    uses(first);
}
