// SPDX-License-Identifier: GPL-2.0

//! A page must be got from the allocator, so it must not be made of a pointer.

use core::ptr::NonNull;

use kscale::mm::page::Page;

fn makes_up() -> Page {
    Page {
        page: NonNull::dangling(),
    }
}
