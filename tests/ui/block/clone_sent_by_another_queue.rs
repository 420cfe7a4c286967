// SPDX-License-Identifier: GPL-2.0

//! A queue that is not the target's may be gone before the clone.

use kscale::block::dm;

fn sends<T: dm::Target>(
    clone: dm::CloneBio<T>,
    queue: &dm::SortedSubmitQueue<T>,
    device: dm::DeviceIndex,
) {
    clone.submit_sorted(|_| queue, device, 0, dm::IrqBio::end);
}
