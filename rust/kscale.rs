// SPDX-License-Identifier: GPL-2.0

//! Safe Rust for the Linux kernel's scalability primitives.

use kernel::prelude::*;

pub mod aead;
pub mod aes;
mod bindings;
pub mod bio;
pub mod boxed;
pub mod cpuhp;
pub mod crc32;
pub mod dm;
#[cfg(kscale_kunit)]
pub mod failpoint;
#[cfg(kscale_faults)]
pub mod fault;
pub mod fips;
mod frame;
pub mod gfp;
#[cfg(kscale_kunit)]
pub mod handover;
#[cfg(CONFIG_IOMMU_IOVA)]
pub mod iova;
pub mod key;
#[cfg(CONFIG_KEYS)]
pub mod keyring;
#[cfg(kscale_kunit)]
pub mod leak;
pub mod list_lru;
mod lock_class;
pub mod md5;
pub mod memcg;
pub mod mempool;
mod module;
mod mutex;
pub mod page;
pub mod page_cache;
pub mod param;
pub mod percpu;
pub mod percpu_counter;
pub mod percpu_limiter;
pub mod random;
pub mod ratelimit;
pub mod rcu_list;
pub mod rwsem;
pub mod shrinker;
pub mod skcipher;
pub mod slab;
pub mod srcu;
mod stack;
mod unique;
pub mod workqueue;

module! {
    type: Kscale,
    name: "kscale",
    authors: ["The kscale authors"],
    description: "Safe Rust for the kernel's scalability primitives",
    license: "GPL",
}

#[pin_data]
struct Kscale {
    #[pin]
    _notifier: module::Notifier,
    /// Goes after `_notifier`, which waits for what it works on.
    _reaper: srcu::Reaper,
    /// Goes after `_notifier`, too, which ends registrations that were leaked.
    _hotplug: cpuhp::State,
    /// As `_hotplug`: caches that were leaked end with their shrinkers.
    _filler: page_cache::Filler,
    /// Goes after all that may have counters.
    _counters: percpu_counter::LockClass,
    /// Goes last, as all of the above may have locks.
    _classes: lock_class::LockClasses,
}

impl kernel::InPlaceModule for Kscale {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: {
                #[cfg(CONFIG_IOMMU_IOVA)]
                iova::take_caches()?;
                #[cfg(kscale_kunit)]
                handover::init();
            },
            // Before anything that may have locks.
            _classes: lock_class::LockClasses::new(),
            // Before anything that may have counters.
            _counters: percpu_counter::LockClass::new()?,
            // Before `_notifier`, which hears of modules at once.
            _reaper: srcu::Reaper::new()?,
            _notifier <- module::Notifier::new(),
            _hotplug: cpuhp::State::new()?,
            _filler: page_cache::Filler::new()?,
        })
    }
}
