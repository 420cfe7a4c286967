// SPDX-License-Identifier: GPL-2.0

//! A page is in one slot at most, so it must not be left to two CPUs.

use kscale::mm::{
    page::Page,
    page_stash::PageStash, //
};

fn puts(cache: &PageStash, page: Page) {
    let _ = cache.put(page);
    let _ = cache.put(page);
}
