// SPDX-License-Identifier: GPL-2.0

//! A cache has single pages, which is how it frees them, so larger blocks must not get there.

use kscale::mm::{
    page::Page,
    page_stash::PageStash, //
};

fn puts(cache: &PageStash, pages: Page<1>) {
    let _ = cache.put(pages);
}
