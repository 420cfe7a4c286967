// SPDX-License-Identifier: GPL-2.0

//! Several processes may read files at once.

use kernel::{
    fmt,
    prelude::*, //
};

use core::cell::Cell;

use kscale::lib::debugfs::{
    File,
    Files, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Reads(Cell<usize>);

#[vtable]
impl Files for Reads {
    const FILES: &'static [File<Self>] = &[File::read_only(c"reads", Self::show)];
}

impl Reads {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.set(self.0.get() + 1);
        writeln!(f, "{}", self.0.get())
    }
}
