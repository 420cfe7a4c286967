// SPDX-License-Identifier: GPL-2.0

//! Enables the tests of the kernel's files.

fn main() {
    println!("cargo:rustc-cfg=kscale_kunit");
}
