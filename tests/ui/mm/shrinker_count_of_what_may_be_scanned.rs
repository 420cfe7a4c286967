// SPDX-License-Identifier: GPL-2.0

//! A count is of all there is: what a scan may do is not for it to ask.

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

struct Cache;

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        if control.may_fs() {
            Count::new(control.nr_to_scan())
        } else {
            Count::EMPTY
        }
    }

    fn scan_objects(&self, _: &ScanControl) -> Scan {
        Scan::STOP
    }
}
