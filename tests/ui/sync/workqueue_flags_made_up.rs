// SPDX-License-Identifier: GPL-2.0

//! Not all flags are fit for a queue of ours, so they must not be made of a number.

use kscale::sync::workqueue::Flags;

fn makes_up() -> Flags {
    Flags(!0)
}
