// SPDX-License-Identifier: GPL-2.0

//! An item runs when nobody knows, so it must not borrow.

use kernel::workqueue::RawWorkItem;

use kscale::sync::workqueue::Workqueue;

fn queues<'a, W>(queue: &Workqueue, item: W)
where
    W: RawWorkItem<0> + Send + 'a,
{
    let _ = queue.enqueue(item);
}
