// SPDX-License-Identifier: GPL-2.0

//! Per-CPU data.
//!
//! This module has values and integers of each CPU. [`counter`] has counters with one sum, [`limiter`]
//! hard limits, and [`hotplug`] callbacks for CPUs that come online and go offline.
//!
//! A [`PerCpu`] holds a value for every possible CPU, each in memory near its CPU. A CPU that only
//! touches its own value shares no cache line with another. How safe code may reach a value depends
//! on its type:
//!
//! | access | for | what keeps it safe |
//! | --- | --- | --- |
//! | [`PerCpu::this_cpu()`] | `T: Send` | [`LocalInterruptDisabled`]: nobody else runs here |
//! | [`PerCpu::raw_cpu()`] | `T: Sync` | the value itself; the task may move to another CPU |
//! | [`PerCpu::get_cpu()`] | `T: Sync` | the value itself; the task stays on its CPU |
//! | [`PerCpu::per_cpu()`], [`PerCpu::iter()`] | `T: Sync` | the value itself |
//! | [`PerCpu::iter_mut()`] | `T: Send` | the exclusive borrow |
//! | [`PerCpuInts`] | integers | an update is one instruction |
//!
//! Preemption that is off does not make a `Cell` safe to touch: an interrupt on the same CPU could
//! touch it as well. So what is not [`Sync`] asks for interrupts that are off.
//!
//! Slots exist for all *possible* CPUs, whether online or not, from the start: nothing has to be
//! done, and nothing is lost, when CPUs come and go. What a CPU keeps back from others, such as
//! credits, may have to be collected when it goes: see [`cpuhp`](crate::percpu::hotplug).
//!
//! Not for data that is rarely written, which all CPUs may share, nor for large data: it is there
//! once for each possible CPU, and at most [`PerCpu::MAX_SIZE_BYTES`]. For one number with a limit
//! take a [percpu_counter](crate::percpu::counter), which need not visit every CPU to be compared.
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
mod slots;
#[cfg(kscale_kunit)]
pub(crate) mod testing;
mod unfinished;

pub use cpus::{
    possible_cpus,
    PossibleCpus, //
};
pub use guard::{
    local_interrupt_disable,
    preempt_disable,
    LocalInterruptDisabled,
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
