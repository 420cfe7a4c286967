// SPDX-License-Identifier: GPL-2.0

//! Two parameters of a module have two names.

use kscale::module::param::writable_param;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

writable_param! {
    static READS: Param = ("size", 0, "A size");
}

mod writes {
    kscale::writable_param! {
        static WRITES: Param = ("size", 0, "Another size");
    }
}
