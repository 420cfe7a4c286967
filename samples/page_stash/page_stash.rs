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
    debugfs::{
        Scope,
        ScopedDir, //
    },
    prelude::*, //
};

use kscale::mm::page_stash::{
    Options,
    PageStash, //
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

#[pin_data]
struct PageStashModule {
    #[pin]
    _service: Scope<Service>,
}

impl kernel::InPlaceModule for PageStashModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let options = Options {
            pages_per_cpu: module_parameters::pages_per_cpu.value().into(),
            floor_per_cpu: module_parameters::floor_per_cpu.value().into(),
            backoff_ms: module_parameters::backoff_ms.value(),
        };

        pin_init::pin_init_scope(move || {
            let cache = PageStash::new(c"page_stash", options).inspect_err(|error| {
                pr_err!("cannot create a stash with {options:?}: {error:?}\n");
            })?;

            Ok(try_pin_init!(Self {
                _service <- Scope::dir(Service::new(cache), c"page_stash", populate),
            }))
        })
    }
}

/// Creates the files of the service.
fn populate<'data>(service: &'data Service, dir: &ScopedDir<'data, '_>) {
    dir.read_callback_file(c"state", service, &files::state);
    dir.read_callback_file(c"cpus", service, &files::cpus);
    dir.read_callback_file(c"load", service, &files::load);
    dir.write_only_callback_file(c"fill", service, &files::fill);
    dir.write_only_callback_file(c"drain", service, &files::drain);
    dir.write_only_callback_file(c"get", service, &files::get);
    dir.write_only_callback_file(c"put", service, &files::put);
    dir.write_only_callback_file(c"run", service, &files::run);
}
