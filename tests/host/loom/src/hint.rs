// SPDX-License-Identifier: GPL-2.0

//! The subset of `kernel::sync::atomic` for values that only affect the cost. The checker does not
//! track them.

use std::sync::atomic::{
    AtomicI64,
    Ordering, //
};

use std::marker::PhantomData;

pub(crate) struct Relaxed;

pub(crate) struct Atomic<T>(AtomicI64, PhantomData<T>);

impl Atomic<i64> {
    pub(crate) const fn new(value: i64) -> Self {
        Self(AtomicI64::new(value), PhantomData)
    }

    pub(crate) fn load(&self, _: Relaxed) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self, value: i64, _: Relaxed) {
        self.0.store(value, Ordering::Relaxed);
    }
}
