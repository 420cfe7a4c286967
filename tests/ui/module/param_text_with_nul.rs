// SPDX-License-Identifier: GPL-2.0

//! A description that adds another entry to `.modinfo`.

#![forbid(unsafe_code)]

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    static SIZE: Param = ("size", 0, "A size\0license=Proprietary");
}
