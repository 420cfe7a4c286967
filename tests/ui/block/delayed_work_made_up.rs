// SPDX-License-Identifier: GPL-2.0

//! Delayed work belongs to a target, so its handle must not be made without one.

use kscale::block::dm;

fn makes_up() -> dm::DelayedWork {
    dm::DelayedWork(())
}
