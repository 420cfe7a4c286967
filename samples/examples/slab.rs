// SPDX-License-Identifier: GPL-2.0

//! Allocates and frees sessions in their own slab cache.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::{
    mm::{
        gfp::Gfp,
        slab::Cache, //
    },
    percpu::counter::PerCpuCounter, //
};

#[pin_data]
struct Session {
    id: u32,
    #[pin]
    bytes: PerCpuCounter,
}

impl Session {
    fn new(id: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            id,
            bytes <- PerCpuCounter::new(0),
        })
    }
}

pub(crate) fn example() -> Result {
    let sessions = Arc::new(Cache::new(c"example_sessions")?, GFP_KERNEL)?;

    // Pinned, because the counter must not move. On failure, the memory is freed.
    let session = sessions
        .alloc(Gfp::KERNEL)?
        .write_pin_init(Session::new(1))?;
    session.bytes.add(512);
    pr_info!("session {}: {}\n", session.id, session.bytes.sum());

    // A session that outlives this function holds a reference to its cache.
    let stored = sessions
        .alloc_arc(Gfp::KERNEL)?
        .write_pin_init(Session::new(2))?;
    pr_info!("session {} is stored\n", stored.id);

    // For interrupts: never sleeps, and may use part of the reserves.
    let events = Cache::new(c"example_events")?;
    let event = events.alloc(Gfp::ATOMIC)?.write(3_u64);
    pr_info!("event {}\n", *event);
    Ok(())
}
