// SPDX-License-Identifier: GPL-2.0

//! The subset of the crate `kernel` that files of `rust/` use, on the standard library.

pub mod alloc;
pub mod sync;

pub mod prelude {
    pub use crate::{
        alloc::{
            KBox,
            KVVec,
            KVec,
            GFP_KERNEL, //
        },
        init,
        pin_init::{
            self,
            Init, //
        },
        Error,
        Result, //
    };
    pub use macros::kunit_tests;
}

/// An error code. No error occurs.
#[derive(Debug)]
pub struct Error;

pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Initialisers, which create values and move them.
pub mod pin_init {
    use std::array;

    pub trait Init<T> {
        fn make(self) -> T;
    }

    impl<T, F: FnOnce() -> T> Init<T> for F {
        fn make(self) -> T {
            self()
        }
    }

    pub fn init_array_from_fn<T, const N: usize>(f: impl FnMut(usize) -> T) -> impl Init<[T; N]> {
        || array::from_fn(f)
    }
}

/// As `init!`, for a struct with the name `Self`.
#[macro_export]
macro_rules! init {
    (Self { $($fields:tt)* }) => {
        $crate::init!(@ [] $($fields)*)
    };
    (@ [$($done:tt)*] $field:ident: $value:expr $(, $($rest:tt)*)?) => {
        $crate::init!(@ [$($done)* $field: $value,] $($($rest)*)?)
    };
    (@ [$($done:tt)*] $field:ident <- $init:expr $(, $($rest:tt)*)?) => {
        $crate::init!(@ [$($done)* $field: $crate::pin_init::Init::make($init),] $($($rest)*)?)
    };
    (@ [$($done:tt)*]) => {
        || Self { $($done)* }
    };
}
