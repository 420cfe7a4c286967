// SPDX-License-Identifier: GPL-2.0

//! A parameter is root's to change.

use kscale::module::param::{
    writable_param,
    Param, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    static SIZE: Param = ("size", 0, "A size");
}

fn changes() {
    SIZE.0.store(1, kernel::sync::atomic::Relaxed);
}
