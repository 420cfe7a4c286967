// SPDX-License-Identifier: GPL-2.0

//! Callbacks run on many CPUs at once.

use kernel::prelude::*;

use core::cell::Cell;

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

struct Cache(Cell<usize>);

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        Count::new(self.0.get())
    }

    fn scan_objects(&self, _: &ScanControl) -> Scan {
        Scan::STOP
    }
}
