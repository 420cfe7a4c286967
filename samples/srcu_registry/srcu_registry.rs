// SPDX-License-Identifier: GPL-2.0

//! SRCU sample: a registry of reclaimers with three implementations.
//!
//! Many tasks walk the registry and call every reclaimer, as memory reclaim does with shrinkers.
//! Other tasks register and unregister reclaimers. In all three implementations, no reclaimer is
//! called after `unregister` returned, and a complete walk misses none:
//!
//! - `rwsem`: readers try to acquire a semaphore, and skip the walk on failure;
//! - `srcu`: readers walk under SRCU, and stop if a reclaimer is unregistered meanwhile;
//! - `refcount`: readers walk under RCU, and hold a reference to the reclaimer that they call.
//!
//! Each implementation has a directory in debugfs:
//!
//! ```sh
//! cd /sys/kernel/debug/srcu_registry/srcu
//! echo 'dentries' >register        # or 'dentries 10' for calls that sleep 10 ms
//! echo >walk
//! cat state                        # dentries called 1
//! echo 'dentries' >unregister
//! echo 'readers=4 ms=1000' >run    # runs a load to its end
//! cat stats
//! cat percentiles                  # durations of unregister, in nanoseconds
//! ```

#![forbid(unsafe_code)]

use kernel::{
    debugfs::{
        Dir,
        Scope,
        ScopedDir, //
    },
    prelude::*, //
};

mod backend;
mod files;
mod latencies;
mod load;
mod reclaimer;
mod refcount;
mod registry;
mod rwsem;
mod srcu;
mod tasks;

use backend::Backend;
use registry::Registry;

module! {
    type: RegistryModule,
    name: "srcu_registry",
    authors: ["The kscale authors"],
    description: "SRCU sample: a registry kept in three ways",
    license: "GPL",
}

#[pin_data]
struct RegistryModule {
    #[pin]
    _rwsem: Scope<Registry<rwsem::Rwsem>>,
    #[pin]
    _srcu: Scope<Registry<srcu::Srcu>>,
    #[pin]
    _refcount: Scope<Registry<refcount::Refcount>>,
    /// Dropped last, because the other directories are in it.
    _dir: Dir,
}

impl kernel::InPlaceModule for RegistryModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = Dir::new(c"srcu_registry");

        try_pin_init!(Self {
            _rwsem <- dir.scope(Registry::new(), rwsem::Rwsem::NAME, populate),
            _srcu <- dir.scope(Registry::new(), srcu::Srcu::NAME, populate),
            _refcount <- dir.scope(Registry::new(), refcount::Refcount::NAME, populate),
            _dir: dir,
        })
    }
}

/// Creates the files of a registry.
fn populate<'data, B: Backend>(registry: &'data Registry<B>, dir: &ScopedDir<'data, '_>) {
    dir.read_callback_file(c"state", registry, &files::state::<B>);
    dir.read_callback_file(c"stats", registry, &files::stats::<B>);
    dir.read_callback_file(c"percentiles", registry, &files::percentiles::<B>);
    dir.write_only_callback_file(c"register", registry, &files::register::<B>);
    dir.write_only_callback_file(c"unregister", registry, &files::unregister::<B>);
    dir.write_only_callback_file(c"wake", registry, &files::wake::<B>);
    dir.write_only_callback_file(c"walk", registry, &files::walk::<B>);
    dir.write_only_callback_file(c"run", registry, &files::run::<B>);
}
