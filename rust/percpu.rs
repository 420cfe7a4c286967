// SPDX-License-Identifier: GPL-2.0

//! Per-CPU data.
//!
//! This module has per-CPU values and per-CPU integers. [`counter`] has counters with one sum.
//! [`limiter`] has hard limits. [`hotplug`] has callbacks for CPUs that come online or go offline.
//!
//! A [`PerCpu`] holds a value for every possible CPU, in memory near this CPU. A CPU that accesses
//! only its own value shares no cache line with other CPUs. The type of the value decides how safe
//! code may access it:
//!
//! | access | for | safe because of |
//! | --- | --- | --- |
//! | [`PerCpu::this_cpu()`] | `T: Send` | [`with_interrupts_disabled()`]: no other code runs here |
//! | [`PerCpu::raw_cpu()`] | `T: Sync` | the type; the task may move to another CPU |
//! | [`PerCpu::get_cpu()`] | `T: Sync` | the type; the task stays on its CPU |
//! | [`PerCpu::per_cpu()`], [`PerCpu::iter()`] | `T: Sync` | the type |
//! | [`PerCpu::iter_mut()`] | `T: Send` | the exclusive borrow |
//! | [`PerCpuInts`] | integers | updates of one instruction |
//!
//! Disabled preemption is not enough to access a `Cell`: an interrupt on the same CPU may access
//! it, too. So a type that is not [`Sync`] requires disabled interrupts.
//!
//! Every *possible* CPU has a slot from the start, online or not. So CPU hotplug needs no action
//! and loses no data. A user may have to collect what an offline CPU holds, for example credits:
//! see [`hotplug`].
//!
//! Do not use per-CPU data for data that is rarely written: all CPUs may share such data. Do not
//! use it for large data: each possible CPU has a copy, of at most [`PerCpu::MAX_SIZE_BYTES`]. For
//! one number that is compared with a limit use a [percpu_counter](crate::percpu::counter): a
//! comparison rarely visits all CPUs.
//!
//! Static per-CPU variables are not supported: `kernel::bindings` has no section for them.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../samples/examples/percpu.rs")]
//! ```
//!
//! C headers: [`include/linux/percpu.h`](srctree/include/linux/percpu.h),
//! [`include/linux/percpu-defs.h`](srctree/include/linux/percpu-defs.h),
//! [`include/linux/interrupt_rc.h`](srctree/include/linux/interrupt_rc.h)

pub mod counter;
mod cpus;
mod guard;
pub mod hotplug;
mod ints;
pub mod limiter;
mod partial;
mod slots;
#[cfg(kscale_kunit)]
pub(crate) mod testing;

pub use cpus::{
    possible_cpus,
    PossibleCpus, //
};
pub use guard::{
    preempt_disable,
    with_interrupts_disabled,
    InterruptsDisabled,
    PreemptDisabled, //
};
pub use ints::{
    Int,
    PerCpuInt,
    PerCpuInts, //
};
pub use slots::{
    CpuGuard,
    PerCpu, //
};
