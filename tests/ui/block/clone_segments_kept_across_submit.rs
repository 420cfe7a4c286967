// SPDX-License-Identifier: GPL-2.0

//! The device has the memory of a submitted clone, so no segment of it must be left.

use kscale::block::{
    bio::Segments,
    dm, //
};

fn uses<T: dm::Target>(
    mut clone: dm::CloneBio<T>,
    device: dm::DeviceIndex,
    uses: fn(Segments<'_>),
) {
    let (_, segments, _) = clone.segments();
    clone.submit(device, 0, dm::IrqBio::end);
    uses(segments);
}
