// SPDX-License-Identifier: GPL-2.0

//! The device owns a child that was submitted, so the child cannot be submitted again.

use kscale::block::dm;

fn uses<T: dm::Target>(child: dm::ChildBio<T>, device: dm::DeviceIndex) {
    child.submit(device, 0, |_, _, _| ());
    child.parent();
}
