// SPDX-License-Identifier: GPL-2.0

//! Raw bindings: what `kernel::bindings` lacks, generated from `bindings.h` and `helpers/`.
//!
//! Types that both have are `kernel::bindings`' own, so values pass between the two freely.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    improper_ctypes,
    // rustc 1.85 does not know the next one.
    unknown_lints,
    unnecessary_transmutes
)]

pub(crate) use kernel::bindings::*;

use kernel::ffi;

use pin_init::{
    MaybeZeroable,
    Zeroable, //
};

// Absolute paths of the generated code that it takes from the crate root in kernel::bindings.
type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!(concat!(env!("KSCALE_GEN"), "/bindings_generated.rs"));
include!(concat!(env!("KSCALE_GEN"), "/helpers_generated.rs"));
