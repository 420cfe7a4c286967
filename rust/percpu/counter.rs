// SPDX-License-Identifier: GPL-2.0

//! Per-CPU counters.
//!
//! Updates are cheap and exact reads are expensive: each CPU accumulates a private delta. The two
//! kinds differ in when a delta is folded into the shared count:
//!
//! | | [`PerCpuCounter`] | [`LocalPerCpuCounter`] |
//! | --- | --- | --- |
//! | a delta is folded | when it reaches a batch | when it overflows an `i32` |
//! | an update | sometimes takes a lock | takes no lock |
//! | approximate reads, comparisons | see [`PerCpuCounter::error_bound`] | no: would be wrong |
//! | use for | soft limits, numbers that are read often | statistics |
//!
//! A [`PerCpuCounterArray`] has several counters of one kind in one allocation.
//!
//! Counters cannot be on the stack: kernels with `CONFIG_DEBUG_OBJECTS_PERCPU_COUNTER` warn of a C
//! counter there.
//!
//! Use [`Refcount`] for a count that decides when to free. Use a
//! [limiter](crate::percpu::limiter) for a hard limit, or for a limit that a load stays close to.
//! `percpu_counter_limited_add()` is not exported to modules.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/percpu_counter.rs")]
//! ```
//!
//! Counters in an array, batches, and local counters:
//!
//! ```
#![doc = include_str!("../../samples/examples/percpu_counter_array.rs")]
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
