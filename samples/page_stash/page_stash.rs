// SPDX-License-Identifier: GPL-2.0

//! Page stash sample: stashed pages per CPU, with a check of their ownership.
//!
//! Any task gets and puts pages, on its own CPU or for another CPU, and the kernel reclaims them
//! when memory is short. Each allocated page is always either cached, held by one owner, or freed.
//! The debugfs files get, hold and put pages:
//!
//! ```sh
//! cd /sys/kernel/debug/page_stash
//! cat state                        # pages cached 0 held 0 allocated 0 freed 0
//! echo >fill                       # fills the slots of all CPUs
//! echo '3 0' >get                  # takes three pages from CPU 0 and holds them
//! echo '2 1' >put                  # puts two of them on CPU 1
//! echo >drain
//! echo 'tasks=4 calls=100000 cpu=0' >run      # runs a load to its end
//! cat load
//! ```
//!
//! `docs/page_stash.md` has a tour. `rcrypt` uses a stash with the parameter `cached_pages`.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::{
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    mm::page_stash::{
        Options,
        PageStash, //
    }, //
};

mod files;
mod load;
mod service;
mod tasks;

use service::Service;

module! {
    type: PageStashModule,
    name: "page_stash",
    authors: ["The kscale authors"],
    description: "Page stash sample: pages in stock for each CPU",
    license: "GPL",
    params: {
        pages_per_cpu: u8 {
            default: 8,
            description: "Pages of each CPU, 1 to 32",
        },
        floor_per_cpu: u8 {
            default: 2,
            description: "Pages of each CPU that stay when memory is short",
        },
        backoff_ms: u32 {
            default: 1000,
            description: "How long nothing is filled after memory was short",
        },
    },
}

struct PageStashModule {
    _files: Dir<Service>,
}

impl kernel::Module for PageStashModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let options = Options {
            pages_per_cpu: module_parameters::pages_per_cpu.value().into(),
            floor_per_cpu: module_parameters::floor_per_cpu.value().into(),
            backoff_ms: module_parameters::backoff_ms.value(),
        };
        let cache = PageStash::new(c"page_stash", options).inspect_err(|error| {
            pr_err!("cannot create a stash with {options:?}: {error:?}\n");
        })?;
        let service = Arc::pin_init(Service::new(cache), GFP_KERNEL)?;

        Ok(Self {
            _files: Dir::new(c"page_stash", service)?,
        })
    }
}

#[vtable]
impl Files for Service {
    const FILES: &'static [File<Self>] = &[
        File::read_only(c"state", files::state),
        File::read_only(c"cpus", files::cpus),
        File::read_only(c"load", files::load),
        File::write_only(c"fill", files::fill),
        File::write_only(c"drain", files::drain),
        File::write_only(c"get", files::get),
        File::write_only(c"put", files::put),
        File::write_only(c"run", files::run),
    ];
}
