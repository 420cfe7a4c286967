// SPDX-License-Identifier: GPL-2.0

//! A page that was left to a cache may be anybody's, so it must not be used any longer.

use kscale::mm::{
    page::Page,
    page_stash::PageStash, //
};

fn uses(cache: &PageStash, mut page: Page) {
    let _ = cache.put(page);
    page.fill(0);
}
