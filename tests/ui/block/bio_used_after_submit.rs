// SPDX-License-Identifier: GPL-2.0

//! A bio that was sent to a device must not be touched until it comes back.

use kscale::block::dm;

fn uses<T: dm::Target>(mut bio: dm::Bio<T>, device: dm::DeviceIndex) {
    bio.submit(device, 0);
    bio.data();
}
