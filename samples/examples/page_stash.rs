// SPDX-License-Identifier: GPL-2.0

//! Has a page at hand where one cannot be waited for.

use kernel::prelude::*;

use kscale::mm::{
    page::Page,
    page_stash::{
        Options,
        PageStash, //
    }, //
};

/// From any context.
fn note(pages: &PageStash, byte: u8) -> Result<Page> {
    // If there is none, one will be there later.
    let mut page = pages.get().ok_or(EAGAIN)?;
    page.fill(byte);
    Ok(page)
}

pub(crate) fn example() -> Result {
    let pages = PageStash::new(
        c"example_page_stash",
        Options {
            pages_per_cpu: 8,
            floor_per_cpu: 1,
            ..Options::default()
        },
    )?;
    // Otherwise the first call on each CPU would find nothing.
    pages.fill()?;

    let page = note(&pages, 0x5a)?;
    if let Err(page) = pages.put(page) {
        // There is no room any more, so it is freed.
        drop(page);
    }
    pr_info!("{} pages cached, {:?}\n", pages.cached(), pages.stats());
    Ok(())
}
