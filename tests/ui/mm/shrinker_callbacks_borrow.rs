// SPDX-License-Identifier: GPL-2.0

//! A registration may be leaked, so callbacks must not borrow what may go before.

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

struct Cache<'a>(&'a usize);

#[vtable]
impl Callbacks for Cache<'static> {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        Count::new(*self.0)
    }

    fn scan_objects(&self, _: &ScanControl) -> Scan {
        Scan::STOP
    }
}

fn takes(_: impl Callbacks) {}

fn borrows(objects: &usize) {
    takes(Cache(objects));
}
