// SPDX-License-Identifier: GPL-2.0

//! Of the memory of a page there must be one segment that may be written, and no other access.

use kscale::mm::page::FilledPage;

fn reads_what_may_be_written(page: &mut FilledPage) -> Option<u8> {
    let mut segment = page.segment_mut(0, 512)?;
    let byte = page.as_slice().first().copied();
    segment.write_at(0, &[1]).ok()?;
    byte
}
