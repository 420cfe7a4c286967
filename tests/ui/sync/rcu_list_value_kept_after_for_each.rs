// SPDX-License-Identifier: GPL-2.0

//! A value may be removed once `for_each()` goes on.

use kscale::sync::rcu_list::List;

fn keeps(list: &List<u32>, uses: fn(Option<&u32>)) {
    let mut last = None;
    list.for_each(|value| last = Some(value));
    uses(last);
}
