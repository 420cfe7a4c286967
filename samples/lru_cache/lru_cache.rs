// SPDX-License-Identifier: GPL-2.0

//! Shrinker sample: a cache of keyed objects that evicts the least recently used objects.
//!
//! Objects are charged to the memory cgroup of the task that creates them. They are on a list for
//! that cgroup and their NUMA node. When memory is short there, the kernel scans the list.
//!
//! ```sh
//! cd /sys/kernel/debug/lru_cache
//! echo '1 100' >get                # looks up the keys 1 to 100
//! cat stats                        # objects, hits, misses, evicted, rotated
//! cat evicted                      # keys of the last evicted objects, in order
//! cat ../shrinker/lru_cache-*/count
//! ```
//!
//! `docs/lru_cache.md` has a tour.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use kscale::{
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    mm::{
        list_lru::ListLru,
        shrinker::{
            Flags,
            Registration,
            Shrinker, //
        }, //
    }, //
};

mod cache;
mod files;
mod stats;

use cache::Cache;

module! {
    type: LruCacheModule,
    name: "lru_cache",
    authors: ["The kscale authors"],
    description: "Shrinker sample: a cache that gives memory back in LRU order",
    license: "GPL",
}

struct LruCacheModule {
    /// Dropped first, so that no task fills the cache any more.
    _files: Dir<Cache>,
    _registration: Registration<Cache>,
}

impl kernel::Module for LruCacheModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let shrinker = Shrinker::new(c"lru_cache", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)?;
        let cache = Cache::new(ListLru::new(c"lru_cache", &shrinker)?)?;
        // From here on reclaim may call back.
        let registration = shrinker.register(cache.clone())?;

        Ok(Self {
            _files: Dir::new(c"lru_cache", cache)?,
            _registration: registration,
        })
    }
}

#[vtable]
impl Files for Cache {
    const FILES: &'static [File<Self>] = &[
        File::write_only(c"get", files::get),
        File::read_only(c"stats", files::stats),
        File::read_only(c"evicted", files::evicted),
    ];
}
