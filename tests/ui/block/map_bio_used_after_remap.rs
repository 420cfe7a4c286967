// SPDX-License-Identifier: GPL-2.0

//! A bio that was remapped is device mapper's, so it must not be touched.

use kscale::block::dm;

fn remaps<'a, T: dm::Target>(
    mut bio: dm::MapBio<'a, T>,
    device: dm::DeviceIndex,
) -> dm::MapResult<'a, T> {
    let map = bio.remap(device, 0);
    bio.data();
    map
}
