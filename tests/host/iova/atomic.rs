// SPDX-License-Identifier: GPL-2.0

//! The subset of `kernel::sync::atomic` that the code under test uses.

use std::sync::atomic::{
    AtomicUsize,
    Ordering, //
};

use std::marker::PhantomData;

pub(crate) struct Relaxed;

pub(crate) struct Atomic<T>(AtomicUsize, PhantomData<T>);

impl Atomic<usize> {
    pub(crate) const fn new(value: usize) -> Self {
        Self(AtomicUsize::new(value), PhantomData)
    }

    pub(crate) fn load(&self, _: Relaxed) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self, value: usize, _: Relaxed) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, value: usize, _: Relaxed) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }
}
