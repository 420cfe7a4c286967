// SPDX-License-Identifier: GPL-2.0

//! The argument of a callback does not outlive the callback.

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

struct Cache {
    count: fn(&'static ShrinkControl),
    scan: fn(&'static ScanControl),
}

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        (self.count)(control);
        Count::EMPTY
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        (self.scan)(control);
        Scan::STOP
    }
}
