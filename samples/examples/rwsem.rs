// SPDX-License-Identifier: GPL-2.0

use kernel::prelude::*;

use kscale::sync::rwsem::new_rwsem;

pub(crate) fn example() -> Result {
    let names = KBox::pin_init(new_rwsem!(KVec::new()), GFP_KERNEL)?;
    names.write().push("first", GFP_KERNEL)?;

    // A task that must not wait handles the case of a writer.
    match names.try_read() {
        Some(names) => pr_info!("{} names\n", names.len()),
        None => pr_info!("busy\n"),
    }
    // Fails while there are readers.
    if let Some(mut names) = names.try_write() {
        names.clear();
    }
    Ok(())
}
