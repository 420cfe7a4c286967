// SPDX-License-Identifier: GPL-2.0

//! A proof cannot be had without turning interrupts off.

use kernel::types::NotThreadSafe;

use kscale::percpu::LocalInterruptDisabled;

fn makes() -> LocalInterruptDisabled {
    LocalInterruptDisabled(NotThreadSafe)
}

fn copies(proof: &LocalInterruptDisabled) -> LocalInterruptDisabled {
    proof.clone()
}
