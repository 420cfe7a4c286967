// SPDX-License-Identifier: GPL-2.0

//! What is in a new page is what its last user left there, if anything, so it must not be read.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    page::Page, //
};

fn reads(uses: fn(&[u8])) -> Result {
    let page: Page = Page::alloc(Gfp::KERNEL)?;
    uses(page.as_slice());
    Ok(())
}
