// SPDX-License-Identifier: GPL-2.0

//! The subset of loom that the checks of `tests/host/loom` use, on the standard library. The checks
//! then run some interleavings only, with real threads and real memory.

pub use std::{
    thread,
    thread_local, //
};

pub mod sync {
    pub use std::sync::*;
}

pub mod model {
    /// The number of runs of a check, to get several interleavings.
    const ROUNDS: usize = 3;

    /// Runs checks.
    #[derive(Default)]
    pub struct Builder {
        /// Ignored.
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
    /// A value that is accessed by pointer only.
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    // SAFETY: The code of each access has its own safety argument.
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
