// SPDX-License-Identifier: GPL-2.0

use kernel::prelude::*;

use kscale::sync::rcu_list::{
    new_list,
    List, //
};

pub(crate) fn example() -> Result {
    let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
    let list: &List<u32> = &list;
    let one = list.push_front(1, GFP_KERNEL)?;
    let _two = list.push_front(2, GFP_KERNEL)?;

    // The callback may sleep: only the removal of this value waits for it.
    list.for_each(|value| pr_info!("at {value}\n"));

    let value = list.remove(one).map_err(|_| EINVAL)?;
    pr_info!("{value} is owned again\n");
    Ok(())
}
