// SPDX-License-Identifier: GPL-2.0

//! The functions of files are constants, so they are in memory of their module.

use kernel::{
    fmt,
    prelude::*, //
};

use kscale::lib::debugfs::File;

fn file(name: &CStr) -> File<()> {
    File::read_only(c"name", |(), f: &mut fmt::Formatter<'_>| {
        writeln!(f, "{}", name.to_bytes().len())
    })
}
