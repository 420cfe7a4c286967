// SPDX-License-Identifier: GPL-2.0

//! Sleepable RCU: readers that may sleep, and values that are freed after a grace period.
//!
//! Readers of a [`Domain`] hold guards. Writers wait for a grace period: it ends when every guard
//! that was held at its start is dropped. Readers see [`Item`]s: the item of a [`Pointer`], or the
//! items of a [`List`]. A writer that removes an item gets a [`Retired`] item. New readers do not
//! find this item. The writer chooses how the grace period is waited for:
//!
//! - [`Retired::wait()`] waits, and returns the item to the writer;
//! - [`Retired::try_wait()`] polls, and never waits;
//! - [`Retired::free_later()`] frees in `call_srcu()`, for destructors that do not sleep;
//! - [`Retired::free_in_workqueue()`] frees in a work queue, for destructors that sleep.
//!
//! Use SRCU where readers sleep, or run callbacks that may sleep. For readers that do not sleep,
//! RCU is cheaper, and all of the kernel shares its grace periods. Where writers must wait only for
//! the readers of the removed item, use [`rcu_list`](crate::sync::rcu_list). Where guards and
//! waiting are enough, use [`kernel::sync::Srcu`].
//!
//! # Flavors
//!
//! | flavor | `read_lock()` | `down_read()` | grace period |
//! | --- | --- | --- | --- |
//! | [`Normal`] | full memory barrier on each side | the same | milliseconds, less if idle |
//! | [`Fast`] | per-CPU increment on each side | no | as [`Normal`], plus an RCU grace period |
//! | [`FastUpDown`] | as [`Fast`] | as [`Fast`] | as [`Fast`] |
//!
//! A guard of `read_lock()` stays in the task and context that took it. A guard of `down_read()`
//! may be dropped by another task. Guards nest, up to some thousands per task.
//!
//! # Guards and domains
//!
//! A guard protects only items of its own domain. The compiler checks the flavor.
//! [`Pointer::load()`] and [`List::walk()`] check the domain, and return [`WrongDomain`].
//! [`Pointer::read()`] and [`List::read()`] take the guard themselves and need no check.
//!
//! # Deadlocks and leaks
//!
//! - A task that waits for a grace period while it holds a guard of the same domain deadlocks. So
//!   does a reader that takes a lock while the holder of this lock waits for a grace period.
//!   Lockdep reports both for guards of `read_lock()`; types do not prevent them.
//! - Dropping the last handle of a [`Domain`] waits for polled grace periods and for callbacks. In
//!   atomic context a worker waits instead. A guard borrows its domain, so a domain with a guard
//!   cannot be dropped (compile error). A leaked guard ([`core::mem::forget`]) leaks the domain:
//!   its grace periods never end. The log names the domain.
//! - An item that contains an [`OwnedDownGuard`] of its own domain is never freed by `call_srcu()`
//!   or a work queue: its grace period waits for its own guard. Unloading its module then hangs.
//! - A leaked [`PointerWriter`] or [`ListWriter`] blocks other writers forever. A writer holds a
//!   reference to its task, because waiters look at the task. This costs two atomic operations per
//!   lock.
//! - A module is freed only after the destructors of its values have run. This holds also for
//!   values of a leaked domain or of another module's domain. The responsible module is the caller
//!   of [`Retired::free_later()`] or [`Retired::free_in_workqueue()`]. The code of a `dyn` value is
//!   in the module that created it. Another module must not defer its free beyond the unload of
//!   that module.
//!
//! Types do not prevent sleeping in atomic context, as everywhere in the kernel.
//!
//! Not supported: readers in NMIs on [`Normal`] domains (`srcu_read_lock_nmisafe()`), domains in
//! static memory (`DEFINE_SRCU()`).
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/srcu.rs")]
//! ```
//!
//! A guard that another task drops:
//!
//! ```
#![doc = include_str!("../../samples/examples/srcu_down_read.rs")]
//! ```
//!
//! Grace periods that are expedited or polled, and destructors that sleep:
//!
//! ```
#![doc = include_str!("../../samples/examples/srcu_grace_period.rs")]
//! ```
//!
//! C header: [`include/linux/srcu.h`](srctree/include/linux/srcu.h)

mod callbacks;
mod domain;
mod flavor;
mod guard;
mod item;
mod list;
mod pending;
mod pointer;
mod poll;
mod retired;
#[cfg(kscale_kunit)]
mod testing;
mod walk;

pub use domain::{
    new_domain,
    Domain, //
};
pub use flavor::{
    Fast,
    FastUpDown,
    Flavor,
    Normal,
    UpDown, //
};
pub use guard::{
    DownGuard,
    Guard,
    OwnedDownGuard,
    ReadSection,
    WrongDomain, //
};
pub use item::{
    Item,
    NewItemError, //
};
pub use list::{
    new_list,
    Entry,
    List,
    ListWriter, //
};
pub use pointer::{
    new_pointer,
    Pointer,
    PointerGuard,
    PointerWriter, //
};
pub use poll::Cookie;
pub use retired::Retired;
pub use walk::{
    ListGuard,
    Walk, //
};

pub(crate) use pending::{
    begun_values,
    forget_destructors,
    pending_values,
    Reaper, //
};
