// SPDX-License-Identifier: GPL-2.0

//! A child may complete when the caller has returned, so its function captures nothing.

use kscale::block::dm;

fn captures<T: dm::Target>(child: dm::ChildBio<T>, device: dm::DeviceIndex, count: &u64) {
    child.submit(device, 0, |_, _, _| {
        let _ = count;
    });
}
