// SPDX-License-Identifier: GPL-2.0

//! An item runs at an unknown time, so it must not borrow.

use kscale::sync::workqueue::{
    ItemPointer,
    Workqueue, //
};

fn queues<'a, W>(queue: &Workqueue, item: W)
where
    W: ItemPointer<0> + Send + 'a,
{
    let _ = queue.enqueue(item);
}
