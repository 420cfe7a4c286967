// SPDX-License-Identifier: GPL-2.0

//! Safe Rust for the Linux kernel's scalability primitives.

// `lib` is named after the kernel's folder; it is not the root of this crate.
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
    /// Goes after `_notifier`, which waits for what it works on.
    _reaper: sync::srcu::Reaper,
    /// Goes after `_notifier`, too, which ends registrations that were leaked.
    _hotplug: percpu::hotplug::State,
    /// As `_hotplug`: caches that were leaked end with their shrinkers.
    _filler: mm::page_stash::Filler,
    /// Goes after all that may have counters.
    _counters: percpu::counter::LockClass,
    /// Goes last, as all of the above may have locks.
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
            // Before anything that may have locks.
            _classes: sync::lock_class::LockClasses::new(),
            // Before anything that may have counters.
            _counters: percpu::counter::LockClass::new()?,
            // Before `_notifier`, which hears of modules at once.
            _reaper: sync::srcu::Reaper::new()?,
            _notifier <- module::cleanup::Notifier::new(),
            _hotplug: percpu::hotplug::State::new()?,
            _filler: mm::page_stash::Filler::new()?,
        })
    }
}
