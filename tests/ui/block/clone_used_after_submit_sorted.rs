// SPDX-License-Identifier: GPL-2.0

//! A clone that waits to be sent is not the target's any more.

use kernel::prelude::*;

use kscale::block::dm;

fn uses<T: dm::Target>(
    mut clone: dm::CloneBio<T>,
    queue: fn(Pin<&T>) -> &dm::SortedSubmitQueue<T>,
    device: dm::DeviceIndex,
) {
    clone.submit_sorted(queue, device, 0, dm::IrqBio::end);
    let _ = clone.segments();
}
