// SPDX-License-Identifier: GPL-2.0

//! The page allocator has single pages only in bulk, so larger blocks must not be asked for.

use kscale::mm::{
    gfp::Gfp,
    page::{
        alloc_bulk,
        Page, //
    }, //
};

fn allocates(slots: &mut [Option<Page<1>>]) -> usize {
    alloc_bulk(Gfp::NOIO, slots)
}
