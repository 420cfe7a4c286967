// SPDX-License-Identifier: GPL-2.0

//! Stashes pages for contexts that must not wait for a page.

use kernel::prelude::*;

use kscale::mm::{
    page::Page,
    page_stash::{
        Options,
        PageStash, //
    }, //
};

/// Returns a stashed page, filled with `byte`.
///
/// Context: Any context. Never sleeps.
fn note(pages: &PageStash, byte: u8) -> Result<Page> {
    // If the stash is empty, a work item refills it later.
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
    // Without this the first call on each CPU finds an empty stash.
    pages.fill()?;

    let page = note(&pages, 0x5a)?;
    if let Err(page) = pages.put(page) {
        // The stash is full, so the page is freed.
        drop(page);
    }
    pr_info!("{} pages cached, {:?}\n", pages.cached(), pages.stats());
    Ok(())
}
