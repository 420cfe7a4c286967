// SPDX-License-Identifier: GPL-2.0

//! A proof cannot be had without turning interrupts off.

use kernel::types::NotThreadSafe;

use kscale::percpu::InterruptsDisabled;

fn makes() -> InterruptsDisabled {
    InterruptsDisabled(NotThreadSafe)
}
