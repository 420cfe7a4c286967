// SPDX-License-Identifier: GPL-2.0

//! A device is got from the table, so it must not be made of a number.

use kscale::block::dm;

fn makes_up() -> dm::DeviceId {
    dm::DeviceId { index: 0, of: 0 }
}
