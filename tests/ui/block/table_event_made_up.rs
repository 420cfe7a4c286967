// SPDX-License-Identifier: GPL-2.0

//! An event belongs to the table of a target, so its handle must not be made without one.

use kscale::block::dm;

fn makes_up() -> dm::TableEvent {
    dm::TableEvent(())
}
