// SPDX-License-Identifier: GPL-2.0

//! A bio that was sent to a device belongs to the device, so it must not be used again.

use core::num::NonZeroU32;

use kscale::block::dm;

fn remaps<'a, T: dm::Target>(
    bio: dm::MapBio<'a, T>,
    device: dm::DeviceIndex,
) -> dm::MapResult<'a, T> {
    let map = bio.remap_range(device, 0, NonZeroU32::MIN);
    bio.target_bio_nr();
    map
}
