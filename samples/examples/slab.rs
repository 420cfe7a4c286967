// SPDX-License-Identifier: GPL-2.0

//! Has many sessions come and go, in a cache of their own.

use kernel::prelude::*;

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
    let sessions = Cache::new(c"example_sessions")?;

    // It stays where it is, as the counter has to. If that fails, the memory goes back.
    let session = sessions
        .alloc(Gfp::KERNEL)?
        .write_pin_init(Session::new(1))?;
    session.bytes.add(512);

    pr_info!("session {}: {}\n", session.id, session.bytes.sum());
    Ok(())
}
