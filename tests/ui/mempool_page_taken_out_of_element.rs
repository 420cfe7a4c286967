// SPDX-License-Identifier: GPL-2.0

//! A page of a pool must go back to it, so it must not be kept for good.

use kscale::{
    mempool::{
        Element,
        PageAllocator, //
    },
    page::Page, //
};

fn takes(element: Element<'_, PageAllocator>) -> Page {
    *element
}
