// SPDX-License-Identifier: GPL-2.0

//! Keeps enough requests in reserve to write back what sets memory free.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use core::mem::MaybeUninit;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Kmalloc,
        Mempool,
        Pages,
        PoolBox, //
    }, //
};

/// Pages of the largest request.
const MAX_PAGES: usize = 16;

struct Request {
    sector: u64,
    bytes: usize,
}

type Requests = Mempool<Kmalloc<Request>>;

/// A request that keeps its pool alive, however long it is under way.
fn request(pool: &Arc<Requests>, sector: u64) -> Result<PoolBox<Arc<Requests>>> {
    // Never fails, as it may sleep; and starts no I/O for memory.
    let memory = pool.alloc_arc(Gfp::NOIO)?;
    let end = sector.checked_add(8);

    // The memory goes back to the pool if this fails.
    memory.write_init(try_init!(Request {
        sector: end.ok_or(EINVAL)? - 8,
        bytes: 0,
    }? Error))
}

pub(crate) fn example() -> Result {
    let requests = Arc::pin_init(Mempool::new(2, Kmalloc::new()), GFP_KERNEL)?;
    let pages = KBox::pin_init(Mempool::new(MAX_PAGES, Pages::<0>), GFP_KERNEL)?;

    let mut request = request(&requests, 1024)?;
    // All pages at once: who waits for some holds none.
    let mut slots = [const { MaybeUninit::uninit() }; MAX_PAGES];
    let mut buffer = pages.alloc_bulk(&mut slots)?;
    for page in buffer.pages_mut() {
        let page = page.fill(0);
        request.bytes += page.as_slice().len();
    }

    pr_info!("{} bytes from sector {}\n", request.bytes, request.sector);
    Ok(())
}
