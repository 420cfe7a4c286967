// SPDX-License-Identifier: GPL-2.0

//! A queue is freed on drop, so nothing must be queued to it any more.

use kernel::sync::Arc;

use kscale::sync::workqueue::{
    ItemPointer,
    Workqueue, //
};

fn queues<W>(queue: Workqueue, item: Arc<W>)
where
    Arc<W>: ItemPointer<0> + Send + 'static,
{
    drop(queue);
    let _ = queue.enqueue(item);
}
