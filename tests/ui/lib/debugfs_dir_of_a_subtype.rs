// SPDX-License-Identifier: GPL-2.0

//! A type and a subtype of it may both implement `Files`. So a directory of the subtype is no directory
//! of the type.

#![allow(coherence_leak_check)]

use kernel::prelude::*;

use core::marker::PhantomData;

use kscale::lib::debugfs::{
    Dir,
    File,
    Files, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Typed<F>(PhantomData<F>);

type Subtype = Typed<for<'a> fn(&'a u8)>;
type Supertype = Typed<fn(&'static u8)>;

#[vtable]
impl Files for Typed<for<'a> fn(&'a u8)> {
    const FILES: &'static [File<Self>] =
        &[File::read_only(c"name", |_, f| f.write_str("subtype\n"))];
}

#[vtable]
impl Files for Typed<fn(&'static u8)> {
    const FILES: &'static [File<Self>] = &[];
}

fn coerces(dir: &Dir<Subtype>) -> &Dir<Supertype> {
    dir
}
