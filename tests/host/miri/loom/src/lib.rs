// SPDX-License-Identifier: GPL-2.0

//! What the checks of `tests/host/loom` need of loom, as the standard library has it: they run some
//! interleavings then, with real threads and real memory.

pub use std::{
    thread,
    thread_local, //
};

pub mod sync {
    pub use std::sync::*;
}

pub mod model {
    /// How often a check runs, for threads to meet in several ways.
    const ROUNDS: usize = 3;

    /// Runs checks.
    #[derive(Default)]
    pub struct Builder {
        /// Not looked at.
        pub preemption_bound: Option<usize>,
    }

    impl Builder {
        pub fn new() -> Self {
            Self::default()
        }

        pub fn check(&self, f: impl Fn()) {
            (0..ROUNDS).for_each(|_| f());
        }
    }
}

pub mod cell {
    /// A value that is touched by pointer only.
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    // SAFETY: Who touches it says why that may be.
    unsafe impl<T: Send> Sync for UnsafeCell<T> {}

    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}
