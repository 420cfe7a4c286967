// SPDX-License-Identifier: GPL-2.0

//! A proof cannot be copied.

use kscale::percpu::InterruptsDisabled;

fn copies(proof: &InterruptsDisabled) -> InterruptsDisabled {
    proof.clone()
}
