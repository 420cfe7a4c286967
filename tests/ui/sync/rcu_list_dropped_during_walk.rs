// SPDX-License-Identifier: GPL-2.0

//! A list frees its values when it is dropped.

use kernel::prelude::*;

use kscale::sync::rcu_list::List;

fn drops(list: Pin<KBox<List<u32>>>, uses: fn(Option<&u32>)) {
    let mut walk = list.walk();
    drop(list);
    uses(walk.next());
}
