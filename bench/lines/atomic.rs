// SPDX-License-Identifier: GPL-2.0

//! The subset of `kernel::sync::atomic` that the code under test uses. Each access is recorded.

use std::cell::Cell;

use crate::machine;

pub(crate) struct Relaxed;
pub(crate) struct Acquire;
pub(crate) struct Release;
pub(crate) struct Full;

pub(crate) struct Atomic<T>(Cell<T>);

impl<T: Copy + PartialEq> Atomic<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    pub(crate) fn load<O>(&self, _: O) -> T {
        machine::access(self, false);
        self.0.get()
    }

    pub(crate) fn store<O>(&self, value: T, _: O) {
        machine::access(self, true);
        self.0.set(value);
    }

    pub(crate) fn xchg<O>(&self, value: T, _: O) -> T {
        machine::access(self, true);
        self.0.replace(value)
    }

    /// A failed exchange takes the line for itself, too.
    pub(crate) fn cmpxchg<O>(&self, old: T, new: T, _: O) -> Result<T, T> {
        machine::access(self, true);
        let seen = self.0.get();
        if seen != old {
            return Err(seen);
        }
        self.0.set(new);
        Ok(seen)
    }

    /// Reads the value until `f` returns true for it.
    pub(crate) fn wait_until(&self, f: impl Fn(T) -> bool) -> T {
        loop {
            let value = self.load(Relaxed);
            if f(value) {
                return value;
            }
            machine::wait(self);
        }
    }

    /// Replaces the value in one access.
    pub(crate) fn replace(&self, f: impl FnOnce(T) -> T) -> T {
        machine::access(self, true);
        self.0.replace(f(self.0.get()))
    }
}

macro_rules! add {
    ($($type:ty),*) => {$(
        impl Atomic<$type> {
            pub(crate) fn fetch_add<O>(&self, value: $type, _: O) -> $type {
                machine::access(self, true);
                self.0.replace(self.0.get().wrapping_add(value))
            }

            pub(crate) fn add<O>(&self, value: $type, order: O) {
                self.fetch_add(value, order);
            }
        }
    )*};
}

add!(i32, i64, usize);
