// SPDX-License-Identifier: GPL-2.0

//! The bytes of a page go with it, so they must not be borrowed when it is left to a cache.

use kscale::mm::{
    page::Page,
    page_stash::PageStash, //
};

fn uses(cache: &PageStash, mut page: Page, uses: fn(&[u8])) {
    let bytes = page.fill(0).as_slice();
    let _ = cache.put(page);
    uses(bytes);
}
