// SPDX-License-Identifier: GPL-2.0

//! Per-CPU counters.
//!
//! Updates are cheap and exact reads dear: each CPU gathers a private delta. There are two kinds,
//! which differ in what becomes of it:
//!
//! | | [`PerCpuCounter`] | [`LocalPerCpuCounter`] |
//! | --- | --- | --- |
//! | a delta is folded into the shared count | once it reaches a batch | when it outgrows an `i32` |
//! | an update | takes a lock every now and then | does not |
//! | approximate reads and comparisons | yes, see [`PerCpuCounter::error_bound`] | no: they would be wrong |
//! | for | soft limits, numbers read often | statistics |
//!
//! [`PerCpuCounterArray`] has several counters of one kind that share one allocation.
//!
//! Keep counters off the stack, where `stack_pin_init!` would put them: kernels with
//! `CONFIG_DEBUG_OBJECTS_PERCPU_COUNTER` warn of that, as they do of C's.
//!
//! Use [`Refcount`] for anything that decides when to free, and
//! [`percpu_limiter`](crate::percpu::limiter) for limits that are hard or that a load stays close to.
//! `percpu_counter_limited_add()` is not exported to modules.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/percpu_counter.rs")]
//! ```
//!
//! C header: [`include/linux/percpu_counter.h`](srctree/include/linux/percpu_counter.h)
//!
//! [`Refcount`]: kernel::sync::Refcount

mod array;
mod batched;
mod local;
mod lock_class;
mod raw;

pub use array::{
    Kind,
    PerCpuCounterArray, //
};
pub use batched::{
    PerCpuCounter, //
};
pub use local::{
    LocalPerCpuCounter, //
};

pub(crate) use lock_class::LockClass;

#[cfg(not(CONFIG_SMP))]
compile_error!("a percpu_counter is a plain integer without CONFIG_SMP");
