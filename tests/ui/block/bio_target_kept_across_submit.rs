// SPDX-License-Identifier: GPL-2.0

//! A bio may come back and end while it is submitted, and the target be freed then.

use kscale::block::dm;

fn uses<T: dm::Target>(bio: dm::Bio<T>, device: dm::DeviceIndex, uses: fn(&T)) {
    let target = bio.target();
    bio.submit(device, 0);
    uses(&target);
}
