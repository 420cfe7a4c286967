// SPDX-License-Identifier: GPL-2.0

//! A clone that was sent to a device is freed when it comes back, so it must not be touched.

use kscale::block::dm;

fn uses<T: dm::Target>(mut clone: dm::CloneBio<T>, device: dm::DeviceIndex) {
    clone.submit(device, 0, dm::IrqBio::end);
    clone.segments();
}
