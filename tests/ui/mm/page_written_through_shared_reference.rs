// SPDX-License-Identifier: GPL-2.0

//! Who shares a page must not write to it.

use kscale::mm::page::Page;

fn writes(page: &Page) {
    page.fill(0);
}
