// SPDX-License-Identifier: GPL-2.0

//! Sending a bio may sleep, and needs lists that are not protected from interrupts.

use kscale::block::dm;

fn sends<T: dm::Target>(bio: dm::IrqBio<T>, device: dm::DeviceIndex) {
    bio.submit(device, 0);
}
