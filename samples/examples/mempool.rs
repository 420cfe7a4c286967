// SPDX-License-Identifier: GPL-2.0

//! Keeps enough requests in reserve for writeback under memory pressure.

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

/// Returns a request that holds a reference to its pool while it is in flight.
fn request(pool: &Arc<Requests>, sector: u64) -> Result<PoolBox<Arc<Requests>>> {
    // Never fails, as it may sleep. Reclaim for it starts no I/O.
    let memory = pool.alloc_arc(Gfp::NOIO)?;
    let end = sector.checked_add(8);

    // On failure, the memory returns to the pool.
    memory.write_init(try_init!(Request {
        sector: end.ok_or(EINVAL)? - 8,
        bytes: 0,
    }? Error))
}

pub(crate) fn example() -> Result {
    let requests = Arc::pin_init(Mempool::new(2, Kmalloc::new()), GFP_KERNEL)?;
    let mut pages = KBox::pin_init(Mempool::new(1, Pages::<0>), GFP_KERNEL)?;
    // Only an exclusive owner can resize a pool: a bulk has at most `min_nr()` elements.
    pages.as_mut().resize(MAX_PAGES)?;

    let mut request = request(&requests, 1024)?;
    // All pages at once: a task that waits for pages holds none.
    let mut slots = [const { MaybeUninit::uninit() }; MAX_PAGES];
    let mut buffer = pages.alloc_bulk(&mut slots)?;
    for page in buffer.pages_mut() {
        let page = page.fill(0);
        request.bytes += page.as_slice().len();
    }

    pr_info!("{} bytes from sector {}\n", request.bytes, request.sector);
    // The other pages stay allocated until the bulk is dropped.
    drop(buffer.take());
    pr_info!("{} of {} pages in use\n", buffer.len(), pages.min_nr());

    // Takes from the reserve without calling the allocator.
    if let Some(memory) = requests.alloc_preallocated() {
        let (sector, bytes) = (0, 0);
        drop(memory.write(Request { sector, bytes }));
    }
    Ok(())
}
