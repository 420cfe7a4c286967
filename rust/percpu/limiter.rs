// SPDX-License-Identifier: GPL-2.0

//! Hard limits that many CPUs charge concurrently.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`CreditCounter`] has a number of credits. A caller takes credits before it uses a resource,
//! and returns them afterwards. The credits in use never exceed the limit, and all credits can be
//! in use. A request is refused only if too few credits are left; credits that concurrent calls are
//! moving do not count. Far from the limit a CPU takes credits from its own slot. Near the limit it
//! takes them from a count that all CPUs share. No lock is used.
//!
//! | | [`percpu_counter`](crate::percpu::counter), `compare` | `read` | [`CreditCounter`] |
//! | --- | --- | --- | --- |
//! | admitted at the limit | more, if concurrent | off by the error bound | exactly the limit |
//! | a request far from the limit | cheap | cheap | cheap |
//! | a request near the limit | a lock, and a visit of every CPU | cheap | one atomic operation |
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
//! A request far from the limit costs a load of the shared count and one atomic operation on the
//! CPU's slot. About one request in 32 also costs an operation on the shared count. Near the limit
//! a CPU's share of the free credits is less than the request; then the request costs one operation
//! on the shared count. A call that finds too few credits visits the slot of every possible CPU,
//! unless all slots are known to be empty. It leaves the slots empty. CPUs refill them only when
//! many credits are free again. So such a visit happens about once in as many requests as there are
//! CPUs. It happens more often if small requests alternate with requests for more than is left,
//! because for the small requests many credits are free.
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
mod pool;
mod slots;

pub use counter::CreditCounter;
