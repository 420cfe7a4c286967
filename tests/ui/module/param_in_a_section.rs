// SPDX-License-Identifier: GPL-2.0

//! The attributes of a parameter do not escape `forbid(unsafe_code)`.

#![forbid(unsafe_code)]

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    #[link_section = ".return_sites"]
    static SIZE: Param = ("size", 0, "A size");
}
