// SPDX-License-Identifier: GPL-2.0

//! A clone may come back in a hard interrupt, which no bio is sent from.

use kscale::block::{
    bio::BlkResult,
    dm, //
};

fn sends<T: dm::Target>(
    clone: dm::CloneBio<T>,
    device: dm::DeviceIndex,
    again: fn(dm::Bio<T>, BlkResult),
) {
    clone.submit(device, 0, again);
}
