// SPDX-License-Identifier: GPL-2.0

//! A list of values that live forever cannot be used as one of values that do not.

use kernel::prelude::*;

use kscale::sync::rcu_list::List;

fn outlive<'s>(list: &List<&'static u32>, short: &'s u32) {
    let list: &List<&'s u32> = list;
    let _stays = list.push_front(short, GFP_KERNEL);
}
