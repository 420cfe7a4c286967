// SPDX-License-Identifier: GPL-2.0

//! Sleepable RCU: readers that may sleep, and values freed when no reader can see them any more.
//!
//! A [`Domain`] has readers, who hold guards, and writers, who wait for a grace period: until every
//! guard that was held when they began to wait is gone. What readers look at is an [`Item`]: the
//! one that a [`Pointer`] points to, or one of a [`List`]. A writer who takes an item away from new
//! readers gets it as a [`Retired`] item, which it
//!
//! - waits for, and then has for itself: [`Retired::wait()`];
//! - asks for later, without ever waiting: [`Retired::try_wait()`];
//! - leaves to `call_srcu()`, if its destructor does not sleep: [`Retired::free_later()`];
//! - leaves to a work queue, if it does: [`Retired::free_in_workqueue()`].
//!
//! Use it where readers must sleep, or run callbacks that may. Where they need not, RCU is cheaper
//! and has grace periods that all of the kernel shares. Where writers must not wait for all readers,
//! only for those of the one item they remove, use [`rcu_list`](crate::sync::rcu_list).
//! [`kernel::sync::Srcu`] is for who needs no more than guards and waiting.
//!
//! # Flavors
//!
//! | flavor | `read_lock()` | `down_read()` | grace period |
//! | --- | --- | --- | --- |
//! | [`Normal`] | full memory barrier on each side | the same | milliseconds, less if idle |
//! | [`Fast`] | per-CPU increment on each side | no | that and RCU's |
//! | [`FastUpDown`] | as [`Fast`] | as [`Fast`] | as [`Fast`] |
//!
//! A guard of `read_lock()` stays in the task and context that took it; one of `down_read()` may be
//! dropped by any other. Guards nest, up to some thousands per task.
//!
//! # Which guard goes with what
//!
//! A guard protects what is of its own domain only. The flavor is checked by the compiler, the
//! domain when [`Pointer::load()`] or [`List::walk()`] is called, which fails with [`WrongDomain`].
//! [`Pointer::read()`] and [`List::read()`] take the guard themselves, so there is nothing to check.
//!
//! # What waits for whom
//!
//! - Whoever waits for a grace period while it holds a guard of the same domain waits for itself,
//!   for ever. So does whoever holds a guard and takes a lock that is held by someone who waits for
//!   a grace period. Lockdep reports both for guards of `read_lock()`; types cannot.
//! - Dropping the last handle of a [`Domain`] waits for polled grace periods and for callbacks;
//!   where it cannot sleep, a worker does the waiting. It cannot be dropped while a guard borrows
//!   it; that does not compile. A guard that was leaked ([`core::mem::forget`]) makes it wait for
//!   ever, after a line in the log that names the domain: hanging is better than freeing what a
//!   reader may use.
//! - An item that has an [`OwnedDownGuard`] of its own domain, and is left to `call_srcu()` or a work
//!   queue, is never freed: it waits for its own guard. So does its module, when it goes.
//! - A [`PointerWriter`] or [`ListWriter`] that was leaked keeps other writers out for ever. It has a
//!   reference to its task, which those look at: two atomic operations per lock.
//! - A module is not freed before the destructors of its values have run, also those of a domain
//!   that was leaked, or belongs to another module. The module is the one that leaves the item to
//!   [`Retired::free_later()`] or [`Retired::free_in_workqueue()`]. A `dyn` value has code of the
//!   module that made it one, so it must not be left to another module when that one goes.
//!
//! Sleeping where one must not is not prevented by types, as everywhere in the kernel.
//!
//! Not supported: readers that are known to be in NMIs on [`Normal`] domains
//! (`srcu_read_lock_nmisafe()`), domains in static memory (`DEFINE_SRCU()`).
//!
//! C header: [`include/linux/srcu.h`](srctree/include/linux/srcu.h)
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/srcu.rs")]
//! ```

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
    forget_destructors,
    wait_for_callbacks,
    Reaper, //
};
