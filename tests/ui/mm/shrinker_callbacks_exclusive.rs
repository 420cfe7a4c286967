// SPDX-License-Identifier: GPL-2.0

//! Callbacks do not have their value for themselves.

use kernel::prelude::*;

use kscale::mm::shrinker::{
    Callbacks,
    Count,
    Scan,
    ScanControl,
    ShrinkControl, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Cache(usize);

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        Count::EMPTY
    }

    fn scan_objects(&mut self, control: &ScanControl) -> Scan {
        self.0 -= control.nr_to_scan();
        Scan::STOP
    }
}
