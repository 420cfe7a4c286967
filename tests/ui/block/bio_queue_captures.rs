// SPDX-License-Identifier: GPL-2.0

//! The work item of a bio has room for a function only, so what that needs must not be captured.

use kernel::prelude::*;

use kscale::{
    block::dm,
    sync::workqueue::Workqueue, //
};

fn captures<T: dm::Target>(
    bio: dm::Bio<T>,
    select: fn(Pin<&T>) -> &Workqueue,
    device: dm::DeviceIndex,
) {
    bio.queue(select, move |bio| bio.submit(device, 0));
}
