// SPDX-License-Identifier: GPL-2.0

//! Submission of clones in sector order, by a worker.
//!
//! [`sorted`] has the queue, [`llist`] its lock-less list, and [`sort`] a merge sort for lists.

use kernel::sync::atomic;

mod llist;
mod sort;
pub(super) mod sorted;
