// SPDX-License-Identifier: GPL-2.0

//! Submission of clones in the order of their sectors, by a worker.
//!
//! [`sorted`] has the queue, [`llist`] the lock-less list behind it, and [`sort`] a merge sort for lists.

use kernel::sync::atomic;

mod llist;
mod sort;
pub(super) mod sorted;
