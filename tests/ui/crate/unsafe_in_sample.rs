// SPDX-License-Identifier: GPL-2.0

//! A sample is safe code all through, so it must not say `unsafe`.

#![forbid(unsafe_code)]

use kscale::mm::page::FilledPage;

fn reads(page: &FilledPage) -> u8 {
    // SAFETY: A page has a first byte.
    unsafe { *page.as_slice().as_ptr() }
}
