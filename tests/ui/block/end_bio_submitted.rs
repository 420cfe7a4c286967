// SPDX-License-Identifier: GPL-2.0

//! To submit a bio may sleep, which `end_io` must not, so it must be deferred first.

use kscale::block::dm;

fn submits<'a, T: dm::Target>(bio: dm::EndBio<'a, T>, device: dm::DeviceIndex) {
    dm::Bio::submit(bio, device, 0);
}
