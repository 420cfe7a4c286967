// SPDX-License-Identifier: GPL-2.0

use kernel::prelude::*;

use kscale::sync::rwsem::new_rwsem;

pub(crate) fn example() -> Result {
    let names = KBox::pin_init(new_rwsem!(KVec::new()), GFP_KERNEL)?;
    names.write().push("first", GFP_KERNEL)?;

    // Who must not wait does something else if there is a writer.
    match names.try_read() {
        Some(names) => pr_info!("{} names\n", names.len()),
        None => pr_info!("busy\n"),
    }
    Ok(())
}
