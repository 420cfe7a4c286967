// SPDX-License-Identifier: GPL-2.0

//! An item runs in another task, so it must be [`Send`].

use kscale::sync::workqueue::{
    ItemPointer,
    Workqueue, //
};

fn queues<W>(queue: &Workqueue, item: W)
where
    W: ItemPointer<0> + 'static,
{
    let _ = queue.enqueue(item);
}
