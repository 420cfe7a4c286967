// SPDX-License-Identifier: GPL-2.0

//! CPU hotplug callbacks.
//!
//! A [`Registration`] calls its [`Callbacks`] for every CPU that comes online or goes offline. Use
//! it for a resource that a CPU holds and other CPUs need, for example credits in [per-CPU
//! data](crate::percpu). Use it also for a setup that a CPU needs. Per-CPU data itself needs no
//! callback: offline CPUs have slots, too.
//!
//! For each CPU, calls of [`online()`](Callbacks::online) and [`offline()`](Callbacks::offline)
//! alternate. The registration calls `online()` for all online CPUs. Dropping it calls `offline()`
//! for all online CPUs. Both also hold without `CONFIG_HOTPLUG_CPU`.
//!
//! # Context
//!
//! Both callbacks run in process context on the CPU in question, in its thread `cpuhp/<number>`.
//! The CPU hotplug lock is held. The callbacks may sleep. Only one callback in the system runs at a
//! time: a slow callback delays others, and all CPU hotplug.
//!
//! A callback must not wait for the hotplug lock, nor for a task that waits for it (deadlock).
//! Tasks that take the lock create or drop a registration, or drop a
//! [`slab::Cache`](crate::mm::slab::Cache). Types do not prevent this. In a callback, a new
//! registration fails, and a dropped registration stays.
//!
//! Only the state `CPUHP_AP_ONLINE_DYN` is supported. Earlier states run in restricted contexts.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/cpuhp.rs")]
//! ```
//!
//! C header: [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

mod registration;
mod state;

pub use registration::{
    Callbacks,
    Registration, //
};
pub(crate) use state::State;
