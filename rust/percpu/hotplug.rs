// SPDX-License-Identifier: GPL-2.0

//! CPU hotplug callbacks.
//!
//! A [`Registration`] has its [`Callbacks`] hear of every CPU that comes online and goes offline.
//! Use it for what a CPU holds that others need, such as credits in [per-CPU data](crate::percpu),
//! or what it needs before it works. Per-CPU data itself needs no callback: its slots are there for
//! offline CPUs, too.
//!
//! For each CPU, [`online()`](Callbacks::online) and [`offline()`](Callbacks::offline) take turns:
//! the first is called for the CPUs that are online when the registration is made, the second for
//! those that are when it is dropped. This is so without `CONFIG_HOTPLUG_CPU`, too.
//!
//! # Context
//!
//! Both run in process context on the CPU in question, in its thread `cpuhp/<number>`, with the
//! lock of CPU hotplug held; they may sleep. One call runs at a time, whatever it is of: callbacks
//! that take long hold up others, and all hotplug.
//!
//! They must not wait for that lock, nor for anybody who does, as whoever makes or drops a
//! registration, or drops a [`slab::Cache`](crate::mm::slab::Cache): types do not prevent that. A
//! callback that makes a registration itself gets an error, and one that it drops stays.
//!
//! States other than `CPUHP_AP_ONLINE_DYN` are not supported: earlier ones run where little is
//! allowed.
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
