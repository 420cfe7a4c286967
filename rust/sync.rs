// SPDX-License-Identifier: GPL-2.0

//! Synchronization: locks, RCU, and work queues.
//!
//! [`srcu`] and [`rcu_list`] protect data whose readers may sleep, [`rwsem`] has reader-writer
//! semaphores, and [`workqueue`] has queues that memory reclaim may wait for. `lock_class` has the
//! names and lockdep classes of locks that may outlive the module that created them.
//!
//! C headers: [`include/linux/srcu.h`](srctree/include/linux/srcu.h),
//! [`include/linux/rculist.h`](srctree/include/linux/rculist.h),
//! [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h),
//! [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

pub(crate) mod lock_class;
pub(crate) mod mutex;
pub mod rcu_list;
pub mod rwsem;
pub mod srcu;
mod stable_ref;
pub mod workqueue;

pub use stable_ref::StableRef;
