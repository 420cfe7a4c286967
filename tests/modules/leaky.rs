// SPDX-License-Identifier: GPL-2.0

//! Leaks on purpose when it is loaded, so that tests can see that the kernel reports it.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use core::mem::forget;

use kscale::percpu::{
    local_interrupt_disable,
    preempt_disable, //
};

module! {
    type: LeakyModule,
    name: "leaky",
    authors: ["The kscale authors"],
    description: "Leaks on purpose",
    license: "GPL",
    params: {
        what: u8 {
            default: 0,
            description: "What is leaked: 0 memory, 1 a preemption guard, 2 an interrupt guard",
        },
    },
}

struct LeakyModule;

impl kernel::Module for LeakyModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        match module_parameters::what.value() {
            // More than one: a stale stack may still refer to the last.
            0 => {
                for filler in 1..=8 {
                    forget(KBox::new([filler; 96], GFP_KERNEL)?);
                }
            }
            1 => forget(preempt_disable()),
            2 => forget(local_interrupt_disable()),
            _ => return Err(EINVAL),
        }
        Ok(LeakyModule)
    }
}
