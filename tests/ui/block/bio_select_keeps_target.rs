// SPDX-License-Identifier: GPL-2.0

//! Whoever picks a queue of the target's must not keep the target, which goes with the bio.

use kernel::prelude::*;

use kscale::{
    block::dm,
    sync::workqueue::Workqueue, //
};

fn keeps<'k, T: dm::Target>(
    kept: &mut Option<Pin<&'k T>>,
    bio: dm::Bio<T>,
    queue: &'static Workqueue,
) {
    bio.queue(
        |target| {
            *kept = Some(target);
            queue
        },
        drop,
    );
}
