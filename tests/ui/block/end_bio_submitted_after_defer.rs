// SPDX-License-Identifier: GPL-2.0

//! `end_io` may run in a hard interrupt, which no bio is sent from, so it must be queued first.

use kscale::block::dm;

fn sends<'a, T: dm::Target>(
    bio: dm::EndBio<'a, T>,
    device: dm::DeviceIndex,
) -> dm::EndIoResult<'a, T> {
    bio.defer(|bio| bio.submit(device, 0))
}
