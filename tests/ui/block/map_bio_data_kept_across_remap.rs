// SPDX-License-Identifier: GPL-2.0

//! The data of a remapped bio is dropped when that ends, so it must not be borrowed any longer.

use kscale::block::dm;

fn remaps<'a, T: dm::Target<PerBio = u64>>(
    mut bio: dm::MapBio<'a, T>,
    device: dm::DeviceIndex,
) -> dm::MapResult<'a, T> {
    let data = bio.data();
    let map = bio.remap(device, 0);
    *data = 1;
    map
}
