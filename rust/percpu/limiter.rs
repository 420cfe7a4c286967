// SPDX-License-Identifier: GPL-2.0

//! Hard limits that many CPUs charge concurrently.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`CreditCounter`] has a number of credits. A caller takes credits before it uses a resource,
//! and returns them afterwards. The credits in use never exceed the limit, and all credits can be
//! in use. A request is refused only if too few credits are left; credits that concurrent calls are
//! moving do not count. A CPU takes credits from its own slot, and returns them there. If the slot
//! has too few or too many, it exchanges credits with a count that all CPUs share. No lock is used.
//!
//! | | [`percpu_counter`](crate::percpu::counter), `compare` | `read` | [`CreditCounter`] |
//! | --- | --- | --- | --- |
//! | admitted at the limit | more, if concurrent | off by the error bound | exactly the limit |
//! | a request far from the limit | cheap | cheap | cheap |
//! | a request near the limit | a lock, and a visit of every CPU | cheap | cheap, while none is refused |
//!
//! A caller that gets credits sees all writes of the callers that returned them, as with a
//! semaphore. The limiter has no wait queue: a caller that waits for credits needs its own way to
//! be woken.
//!
//! For a number that is only read use a [`percpu_counter`](crate::percpu::counter). To wait for a
//! resource use a semaphore or a [mempool](crate::mm::mempool).
//!
//! # What is exact
//!
//! - *At most the limit*: the credits in use never exceed the limit.
//!   [`set_limit()`](CreditCounter::set_limit) may lower the limit below the credits in use. Then
//!   nothing is admitted until enough credits are returned.
//! - *Not less*: a call that runs alone is refused only if too few credits are left. It first
//!   collects the credits parked in the slots of all CPUs, online or not. A call that runs
//!   concurrently with others may miss credits that these calls are parking, collecting or
//!   returning. It may also miss credits that are parked in a slot after its visit. So a request
//!   for nearly all credits may fail although few are in use. But tasks that take single credits
//!   until a refusal get exactly the limit in total, on any number of CPUs, if no credit is
//!   returned.
//! - *Nothing is lost* when a CPU goes offline at any time.
//!
//! # Cost
//!
//! A request costs a load of the shared count and one atomic operation on the CPU's slot. If a CPU
//! only takes credits, or only returns them, about one request in `max(32, 2 * CPUs)` also costs an
//! operation on the shared count. Near the limit a slot keeps the credits of four requests that are
//! returned on its CPU.
//!
//! A call that finds too few credits visits the slot of every possible CPU, unless all slots are
//! known to be empty. It closes the slots. Near the limit they stay closed for four requests of
//! each CPU; these cost one operation on the shared count each. So such a visit happens about once
//! in as many requests as there are CPUs. It happens more often if small requests alternate with
//! requests for more than is left, because for the small requests many credits are free.
//!
//! `make bench BENCH=dm-crypt-page-limit LANE=lines` counts the cache lines that move between up to
//! 1024 CPUs.
//!
//! The algorithm is in `rust/percpu/limiter/pool.rs`, which `tests/host/loom` explores.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/percpu_limiter.rs")]
//! ```

use kernel::sync::{
    atomic,
    atomic as hint, //
};

mod counter;
mod pacing;
mod pool;
mod slots;

pub use counter::CreditCounter;
