// SPDX-License-Identifier: GPL-2.0

//! Builds the tests of the kernel's files, too.

fn main() {
    println!("cargo:rustc-cfg=kscale_kunit");
}
