// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::atomic`, as far as it is needed, on loom's atomics.

use loom::sync::atomic::{
    AtomicI64,
    Ordering, //
};

use std::marker::PhantomData;

pub(crate) trait AnyOrder {
    const ORDER: Ordering;
}

macro_rules! orders {
    ($($name:ident => $order:ident),*) => {$(
        pub(crate) struct $name;

        impl AnyOrder for $name {
            const ORDER: Ordering = Ordering::$order;
        }
    )*};
}

// `Full` is more than this: what is right here is right there.
orders!(Relaxed => Relaxed, Acquire => Acquire, Release => Release, Full => AcqRel);

pub(crate) struct Atomic<T>(AtomicI64, PhantomData<T>);

impl Atomic<i64> {
    pub(crate) fn new(value: i64) -> Self {
        Self(AtomicI64::new(value), PhantomData)
    }

    pub(crate) fn load<O: AnyOrder>(&self, _: O) -> i64 {
        self.0.load(O::ORDER)
    }

    /// For mutants.
    #[allow(dead_code)]
    pub(crate) fn store<O: AnyOrder>(&self, value: i64, _: O) {
        self.0.store(value, O::ORDER);
    }

    pub(crate) fn xchg<O: AnyOrder>(&self, value: i64, _: O) -> i64 {
        self.0.swap(value, O::ORDER)
    }

    pub(crate) fn cmpxchg<O: AnyOrder>(&self, old: i64, new: i64, _: O) -> Result<i64, i64> {
        // A failed one orders nothing in the kernel.
        self.0
            .compare_exchange(old, new, O::ORDER, Ordering::Relaxed)
    }

    pub(crate) fn fetch_add<O: AnyOrder>(&self, value: i64, _: O) -> i64 {
        self.0.fetch_add(value, O::ORDER)
    }
}
