// SPDX-License-Identifier: GPL-2.0

//! A module that uses the library and is built outside its tree.

#![forbid(unsafe_code)]

use kernel::prelude::*;
use kscale::percpu::counter::PerCpuCounter;

module! {
    type: Hello,
    name: "hello",
    authors: ["You"],
    description: "Counts to 42",
    license: "GPL",
}

struct Hello(Pin<KBox<PerCpuCounter>>);

impl kernel::Module for Hello {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let counter = KBox::try_pin_init(PerCpuCounter::new(40), GFP_KERNEL)?;
        counter.add(2);
        pr_info!("{}\n", counter.sum());
        Ok(Self(counter))
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        pr_info!("still {}\n", self.0.sum());
    }
}
