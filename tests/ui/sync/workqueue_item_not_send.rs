// SPDX-License-Identifier: GPL-2.0

//! An item runs in another task, so it must be [`Send`].

use kernel::workqueue::WorkItemPointer;

use kscale::sync::workqueue::Workqueue;

fn queues<W>(queue: &Workqueue, item: W)
where
    W: WorkItemPointer<0> + 'static,
{
    let _ = queue.enqueue(item);
}
