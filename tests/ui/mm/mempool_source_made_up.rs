// SPDX-License-Identifier: GPL-2.0

//! What C calls back for memory takes `unsafe` to say.

use kscale::mm::{
    mempool::Source,
    page::Page, //
};

struct Nothing;

impl Source for Nothing {
    type Memory = Page;

    const ALLOC: kernel::bindings::mempool_alloc_t = None;
    const FREE: kernel::bindings::mempool_free_t = None;
}
