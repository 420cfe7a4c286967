// SPDX-License-Identifier: GPL-2.0

//! `get_device()` returns the index of a device. A target cannot make an index from a number.

use kscale::block::dm;

fn makes_up() -> dm::DeviceIndex {
    dm::DeviceIndex {
        bdev: core::ptr::null_mut(),
        of: 0,
        index: 0,
    }
}
