// SPDX-License-Identifier: GPL-2.0

//! A bio on a workqueue is the work item's, so whoever queued it must not end it.

use kernel::prelude::*;

use kscale::{
    block::dm,
    sync::workqueue::Workqueue, //
};

fn ends<T: dm::Target>(bio: dm::Bio<T>, select: fn(Pin<&T>) -> &Workqueue) {
    bio.queue(select, drop);
    bio.end(Ok(()));
}
