// SPDX-License-Identifier: GPL-2.0

//! Safe Rust for the Linux kernel's scalability primitives.
//!
//! | module | has |
//! | --- | --- |
//! | [`block`] | bios, and device-mapper targets |
//! | [`crypto`] | ciphers, AEAD, keys and other secrets |
//! | `iommu` (with `CONFIG_IOMMU_IOVA`) | I/O virtual addresses, their caches and flush queues |
//! | [`mm`] | pages, pools, slab caches, shrinkers, `list_lru`, a stash of pages |
//! | [`percpu`] | per-CPU data, counters, limits, CPU hotplug callbacks |
//! | [`sync`] | SRCU, RCU lists, reader-writer semaphores, workqueues |
//! | [`mod@module`] | module parameters |
//! | [`lib`] | CRC-32, files in debugfs, random numbers, rate limits of log messages |
//!
//! A module that uses this crate needs no `unsafe`. The documentation of a function has a line
//! `Context:`, with the contexts that may call it and whether it may sleep. `docs/soundness.md` of
//! the source tree lists what safe code can rely on, and all exceptions.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../samples/examples/percpu_counter.rs")]
//! ```

// `lib` is named after the kernel's `lib/`. It is not the root of this crate.
#![allow(special_module_name)]

use kernel::prelude::*;

mod bindings;
pub mod block;
pub mod crypto;
#[cfg(CONFIG_IOMMU_IOVA)]
pub mod iommu;
pub mod lib;
pub mod mm;
pub mod module;
pub mod percpu;
pub mod sync;
#[cfg(kscale_kunit)]
pub mod testing;

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
    _notifier: module::cleanup::Notifier,
    /// Dropped after `_notifier`, which waits for the reaper's work.
    _reaper: sync::srcu::Reaper,
    /// Dropped after `_notifier`, which unregisters leaked registrations.
    _hotplug: percpu::hotplug::State,
    /// Dropped after `_notifier`: leaked stashes are freed together with their shrinkers.
    _filler: mm::page_stash::Filler,
    /// Dropped after every field that may own counters.
    _counters: percpu::counter::LockClass,
    /// Dropped last: every field above may own locks.
    _classes: sync::lock_class::LockClasses,
}

impl kernel::InPlaceModule for Kscale {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: {
                #[cfg(CONFIG_IOMMU_IOVA)]
                iommu::iova::take_caches()?;
                #[cfg(kscale_kunit)]
                testing::handover::init();
            },
            // Before every field that may own locks.
            _classes: sync::lock_class::LockClasses::new(),
            // Before every field that may own counters.
            _counters: percpu::counter::LockClass::new()?,
            // Before `_notifier`, which may be called as soon as it is registered.
            _reaper: sync::srcu::Reaper::new()?,
            _notifier <- module::cleanup::Notifier::new(),
            _hotplug: percpu::hotplug::State::new()?,
            _filler: mm::page_stash::Filler::new()?,
        })
    }
}
