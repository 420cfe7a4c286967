// SPDX-License-Identifier: GPL-2.0

//! A client belongs to the devices of a target, so its handle must not be made without one.

use kscale::block::dm;

fn makes_up() -> dm::IoClient {
    dm::IoClient(())
}
