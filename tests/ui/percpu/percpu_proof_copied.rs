// SPDX-License-Identifier: GPL-2.0

//! A proof cannot be copied.

use kscale::percpu::IrqsOffGuard;

fn copies(proof: &IrqsOffGuard) -> IrqsOffGuard {
    proof.clone()
}
