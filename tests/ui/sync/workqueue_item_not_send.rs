// SPDX-License-Identifier: GPL-2.0

//! An item runs in another task, so it must be [`Send`].

use kernel::workqueue::RawWorkItem;

use kscale::sync::workqueue::Workqueue;

fn queues<W>(queue: &Workqueue, item: W)
where
    W: RawWorkItem<0> + 'static,
{
    let _ = queue.enqueue(item);
}
