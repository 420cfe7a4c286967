// SPDX-License-Identifier: GPL-2.0

//! A bio must go to a queue that lives as long as the target, so not to one on the stack.

use kscale::{
    block::dm,
    sync::workqueue::Workqueue, //
};

fn queues<T: dm::Target>(bio: dm::Bio<T>, queue: &Workqueue) {
    bio.queue(|_| queue, drop);
}
