#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: host
#
# Makes the directory that the packages of headers install, and builds a Rust module with it.

set -eu
. "${0%/*}/headers.sh"
make_headers

mkdir hello
echo 'obj-m := hello.o' >hello/Kbuild
cat >hello/hello.rs <<'END'
// SPDX-License-Identifier: GPL-2.0

//! A module outside the tree.

use kernel::prelude::*;

module! {
    type: Hello,
    name: "hello",
    authors: ["Nobody"],
    description: "A module outside the tree",
    license: "GPL",
}

struct Hello(KVec<i32>);

impl kernel::Module for Hello {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let mut numbers = KVec::new();
        numbers.push(42, GFP_KERNEL)?;
        pr_info!("{:?}\n", numbers);
        Ok(Self(numbers))
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        pr_info!("{:?}\n", self.0);
    }
}
END
build_module "$PWD/hello" || exit 100
test -f hello/hello.ko
