// SPDX-License-Identifier: GPL-2.0

//! A segment can be read, so it must not have what the last user of a page left there.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    page::Page, //
};

fn reads(bytes: &mut [u8]) -> Result {
    let mut page: Page = Page::alloc(Gfp::KERNEL)?;
    let segment = page.segment_mut(0, 512).ok_or(EINVAL)?;
    segment.as_segment().read_at(0, bytes)
}
