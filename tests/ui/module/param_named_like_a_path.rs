// SPDX-License-Identifier: GPL-2.0

//! The name of a parameter is the name of a file.

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    static SIZE: Param = ("max/size", 0, "A size");
}
