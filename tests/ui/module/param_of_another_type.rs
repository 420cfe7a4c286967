// SPDX-License-Identifier: GPL-2.0

//! The kernel writes to a parameter only: the declaration cannot be removed in favour of a value with
//! any address.

#![forbid(unsafe_code)]

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Anywhere;

impl Anywhere {
    const fn as_void_ptr(&self) -> *mut kernel::ffi::c_void {
        core::ptr::without_provenance_mut(0xdead_0000)
    }
}

static SIZE: Anywhere = Anywhere;

writable_param! {
    #[cfg(any())]
    static SIZE: Param = ("size", 0, "A size");
}
