// SPDX-License-Identifier: GPL-2.0

//! A clone may come back when nothing else of its sender is left, so that must not be captured.

use kscale::block::dm;

fn captures<T: dm::Target>(clone: dm::CloneBio<T>, device: dm::DeviceIndex, count: &u64) {
    clone.submit(device, *count, |bio, result| {
        let _ = count;
        bio.end(result);
    });
}
