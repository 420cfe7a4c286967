// SPDX-License-Identifier: GPL-2.0

//! What some files of `rust/` need of the crate `macros`.

use proc_macro::TokenStream;

/// Leaves the tests of a KUnit suite as they are: tests of the standard library's harness.
#[proc_macro_attribute]
pub fn kunit_tests(_suite: TokenStream, tests: TokenStream) -> TokenStream {
    tests
}
