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
    prelude::*,
    sync::Arc, //
};

use kscale::lib::debugfs::{
    Dir,
    File,
    Files, //
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

struct RegistryModule {
    _rwsem: Dir<Registry<rwsem::Rwsem>>,
    _srcu: Dir<Registry<srcu::Srcu>>,
    _refcount: Dir<Registry<refcount::Refcount>>,
}

impl kernel::Module for RegistryModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Stays until the directories in it are dropped.
        let root = Dir::new(c"srcu_registry", Arc::new(Root, GFP_KERNEL)?)?;

        Ok(Self {
            _rwsem: create_dir(&root)?,
            _srcu: create_dir(&root)?,
            _refcount: create_dir(&root)?,
        })
    }
}

/// The directory that has those of the registries.
struct Root;

#[vtable]
impl Files for Root {
    const FILES: &'static [File<Self>] = &[];
}

/// Creates a registry with its files.
fn create_dir<B: Backend>(root: &Dir<Root>) -> Result<Dir<Registry<B>>> {
    let registry = Arc::pin_init(Registry::new(), GFP_KERNEL)?;
    Dir::new_in(root, B::NAME, registry)
}

#[vtable]
impl<B: Backend> Files for Registry<B> {
    const FILES: &'static [File<Self>] = &[
        File::read_only(c"state", files::state::<B>),
        File::read_only(c"stats", files::stats::<B>),
        File::read_only(c"percentiles", files::percentiles::<B>),
        File::write_only(c"register", files::register::<B>),
        File::write_only(c"unregister", files::unregister::<B>),
        File::write_only(c"wake", files::wake::<B>),
        File::write_only(c"walk", files::walk::<B>),
        File::write_only(c"run", files::run::<B>),
    ];
}
