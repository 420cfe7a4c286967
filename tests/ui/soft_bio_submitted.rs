// SPDX-License-Identifier: GPL-2.0

//! Sending a bio may sleep, which softirq context must not.

use kscale::dm;

fn sends<T: dm::Target>(bio: dm::SoftBio<T>, device: dm::Device) {
    bio.submit(device, 0);
}
