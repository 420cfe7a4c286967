// SPDX-License-Identifier: GPL-2.0

//! A parameter has a name.

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    static SIZE: Param = ("", 0, "A size");
}
