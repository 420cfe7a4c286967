// SPDX-License-Identifier: GPL-2.0

//! Pools, pages and counters, each used by its owner.

use kernel::prelude::*;

use core::{
    mem::MaybeUninit,
    num::NonZeroU16, //
};

use kscale::{
    mm::{
        gfp::{
            noio_scope,
            Gfp, //
        },
        mempool::{
            Mempool,
            Pages, //
        },
        page::Page,
        page_stash::{
            Options,
            PageStash, //
        }, //
    },
    percpu::counter::{
        LocalPerCpuCounter,
        PerCpuCounter,
        PerCpuCounterArray, //
    }, //
};

/// Takes pages, gives them back, and then changes the size of the reserve.
pub fn mempool() -> Result {
    let mut pool = KBox::pin_init(Mempool::new(4, Pages::<0>), GFP_KERNEL)?;
    let mut slots = [const { MaybeUninit::uninit() }; 4];

    let mut element = pool.alloc(Gfp::NOIO | Gfp::NOWARN)?;
    element.fill(0);
    drop(element);
    let mut bulk = noio_scope(|| pool.alloc_bulk(&mut slots))?;
    for page in bulk.pages_mut() {
        page.fill(0);
    }
    drop(bulk);
    pool.as_mut().resize(8)
}

/// Writes to the largest block of pages.
pub fn page() -> Result {
    Page::<10>::alloc(Gfp::KERNEL)?.fill(0);
    Ok(())
}

/// Takes a page that was in stock, writes to it, and leaves it.
pub fn page_stash() -> Result {
    let cache = PageStash::new(c"pass", Options::default())?;

    cache.fill()?;
    let mut page = cache.get().ok_or(ENOMEM)?;
    page.fill(0);
    cache.put(page).map_err(|_| EBUSY)
}

/// Sets a counter that nobody else has yet.
pub fn percpu_counter() -> Result<Pin<KBox<PerCpuCounter>>> {
    let mut counter = KBox::pin_init(PerCpuCounter::new(0), GFP_KERNEL)?;
    counter.as_mut().set(1);
    counter.add_batch(1, NonZeroU16::MAX);
    Ok(counter)
}

/// Makes the largest array, and reads and sets one of its counters.
pub fn percpu_counter_array() -> Result<i64> {
    let mut counters: Pin<KBox<PerCpuCounterArray<8192, LocalPerCpuCounter>>> =
        KBox::try_pin_init(PerCpuCounterArray::new(0), GFP_KERNEL)?;
    counters.as_mut().set(0, 1)?;
    let [first, ..] = counters.as_array();
    Ok(first.sum())
}
