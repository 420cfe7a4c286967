// SPDX-License-Identifier: GPL-2.0

//! A parameter of a crate that calls itself `kernel`: none of its code gets into the parameter.

extern crate kernel as linux;
extern crate self as kernel;

pub use linux::*;

use kscale::module::param::writable_param;

pub struct LocalModule;

pub mod module_param {
    pub struct KernelParam;

    impl KernelParam {
        pub const fn new(_: linux::bindings::kernel_param) -> Self {
            panic!("not the kernel's")
        }
    }
}

writable_param! {
    static SIZE: Param = ("size", 0, "A size");
}

writable_param! {
    static MAX_SIZE_2: Param = ("max_size_2", 0, "Another size");
}

/// The sum of both.
pub fn sum() -> u64 {
    u64::from(SIZE.value()) + u64::from(MAX_SIZE_2.value())
}
