// SPDX-License-Identifier: GPL-2.0

//! Hard limits that many CPUs take from at once.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`CreditLimiter`] has a number of credits, which callers take before they use something and
//! give back afterwards. No more than the limit are ever in use, and every one of them can be: a
//! request is refused only if too few are left, but for what other calls move at that moment. Far
//! from the limit a CPU takes them from a stock of its own; next to the limit, from a count that all
//! CPUs share. There is no lock.
//!
//! | | [`percpu_counter`](crate::percpu::counter), `compare` | `read` | [`CreditLimiter`] |
//! | --- | --- | --- | --- |
//! | admitted at the limit | more, by those who compare at once | more or less, by the error bound | as many as the limit |
//! | a request far from the limit | cheap | cheap | cheap |
//! | a request near the limit | a lock, and a look at every CPU | cheap | one atomic operation |
//!
//! Whoever gets credits sees what was done by those who gave them back before, as with a semaphore;
//! who waits for credits needs a way of his own to be woken. [`CreditCounter`] is the same for those
//! who cannot keep what proves that they have credits.
//!
//! Not for numbers that are only read, which [`percpu_counter`](crate::percpu::counter) is for, nor
//! where a semaphore or a [mempool](crate::mm::mempool) would do, which wait.
//!
//! # What is exact
//!
//! - *At most the limit*: the credits that were admitted and not given back are never more than the
//!   limit. After [`set_limit()`](CreditLimiter::set_limit) has lowered it below what is in use,
//!   nothing is admitted until enough came back.
//! - *Not less*: a call that runs alone is refused only if less than it asks for is left, after what
//!   CPUs kept for themselves, those offline too, has been collected. One that runs beside others may
//!   miss what these have in their hands, as they are about to keep it, to collect it or to give it
//!   back, and what they kept for a CPU after it had looked there: so a request for next to
//!   everything may fail although others have few. But tasks that ask for one credit after the other
//!   until they are refused get as many as the limit in all, on however many CPUs, if none is given
//!   back.
//! - *Nothing is lost* when a CPU goes offline, whenever it does.
//!
//! # Cost
//!
//! A request far from the limit takes a load of the shared count and one atomic operation on a slot
//! of the CPU, and about one in 32 an operation on the shared count. Near the limit, where a CPU's
//! share of what is left is less than the request, it takes one operation on the shared count. A
//! call that finds too little looks at the slot of every possible CPU, unless it is known that all
//! of them are empty; it leaves them empty, and the CPUs do not fill them again before plenty is
//! left, so that happens once in about as many requests as there are CPUs. It happens more often
//! where requests for more than is left alternate with small ones, as plenty is left for these.
//!
//! The algorithm is in `rust/percpu/limiter/pool.rs`, which `tests/host/loom` explores.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/percpu_limiter.rs")]
//! ```

use kernel::sync::atomic;

mod counter;
mod credits;
mod pool;
mod slots;

pub use counter::CreditCounter;
pub use credits::{
    CreditLimiter,
    Credits, //
};
