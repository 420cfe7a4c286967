// SPDX-License-Identifier: GPL-2.0

//! SRCU sample: a registry of reclaimers, kept in three ways.
//!
//! Many tasks walk the registry and call every reclaimer, as memory reclaim does with shrinkers,
//! while others register and unregister. Whichever way it is kept, no reclaimer is called after
//! `unregister` returned, and a walk that gets to the end leaves none out:
//!
//! - `rwsem`: readers try to get a semaphore, and skip the walk if they cannot;
//! - `srcu`: readers walk under SRCU, and stop if a reclaimer was unregistered meanwhile;
//! - `refcount`: readers walk under RCU, with a reference to the one reclaimer that they call.
//!
//! Each has a directory in debugfs:
//!
//! ```sh
//! cd /sys/kernel/debug/srcu_registry/srcu
//! echo 'dentries' >register        # or 'dentries 10', to sleep for 10 ms when called
//! echo >walk
//! cat state                        # dentries called 1
//! echo 'dentries' >unregister
//! echo 'readers=4 ms=1000' >run    # a load; returns when it is done
//! cat stats
//! cat percentiles                  # how long it took to unregister, in nanoseconds
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
    /// Goes last, as the others are in it.
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

/// Makes the files of a registry.
fn populate<'data, B: Backend>(registry: &'data Registry<B>, dir: &ScopedDir<'data, '_>) {
    dir.read_callback_file(c"state", registry, &files::state::<B>);
    dir.read_callback_file(c"stats", registry, &files::stats::<B>);
    dir.read_callback_file(c"percentiles", registry, &files::percentiles::<B>);
    dir.write_only_callback_file(c"register", registry, &files::register::<B>);
    dir.write_only_callback_file(c"unregister", registry, &files::unregister::<B>);
    dir.write_only_callback_file(c"walk", registry, &files::walk::<B>);
    dir.write_only_callback_file(c"run", registry, &files::run::<B>);
}
