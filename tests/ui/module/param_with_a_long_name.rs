// SPDX-License-Identifier: GPL-2.0

//! The kernel allocates memory for the name of a parameter.

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    static SIZE: Param = ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0, "A size");
}
