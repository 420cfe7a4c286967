// SPDX-License-Identifier: GPL-2.0

//! What is asked for does not outlive the callback, nor does the cgroup.

use kernel::prelude::*;

use kscale::mm::{
    memcg::MemCgroup,
    shrinker::{
        Callbacks,
        Count,
        Scan,
        ScanControl,
        ShrinkControl, //
    }, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Cache {
    control: fn(&'static ShrinkControl),
    memcg: fn(&'static MemCgroup),
}

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        (self.control)(control);
        Count::EMPTY
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        control.memcg().map(self.memcg);
        Scan::STOP
    }
}
