// SPDX-License-Identifier: GPL-2.0

//! 0 could be a count of nothing, or that nobody knows; a count is not what was scanned.

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
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        0
    }

    fn scan_objects(&self, _: &ScanControl) -> Scan {
        Count::EMPTY
    }
}
