// SPDX-License-Identifier: GPL-2.0

//! A queue that is not the target's may be gone before the clone.

use kscale::block::dm;

fn sends<T: dm::Target>(clone: dm::CloneBio<T>, queue: &dm::SendQueue<T>, device: dm::Device) {
    clone.submit_in_order(|_| queue, device, 0, dm::IrqBio::end);
}
