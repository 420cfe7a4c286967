// SPDX-License-Identifier: GPL-2.0

//! A module with an `assert!` of its own does not escape the check of the name.

#![forbid(unsafe_code)]

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

macro_rules! assert {
    ($($tokens:tt)*) => {};
}

writable_param! {
    static SIZE: Param = ("../size", 0, "A size");
}
