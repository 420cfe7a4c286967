// SPDX-License-Identifier: GPL-2.0

//! The subset of `kernel::sync::atomic` that the code under test uses, on loom's atomics.

use loom::sync::atomic::{
    fence,
    AtomicBool,
    AtomicI64,
    AtomicPtr,
    AtomicU64,
    Ordering, //
};

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

// The kernel's `Full` is stronger: code that is correct with this is correct there.
orders!(Relaxed => Relaxed, Acquire => Acquire, Release => Release, Full => AcqRel);

/// An atomic type, and its type in loom.
pub(crate) trait AtomicType: Sized {
    type Atomic;

    fn new(value: Self) -> Self::Atomic;
    fn load(atomic: &Self::Atomic, order: Ordering) -> Self;
    fn store(atomic: &Self::Atomic, value: Self, order: Ordering);
    fn swap(atomic: &Self::Atomic, value: Self, order: Ordering) -> Self;
    fn compare_exchange(
        atomic: &Self::Atomic,
        old: Self,
        new: Self,
        order: Ordering,
    ) -> Result<Self, Self>;
}

macro_rules! atomic_type {
    ([$($param:ident)?] $type:ty: $atomic:ty) => {
        impl $(<$param>)? AtomicType for $type {
            type Atomic = $atomic;

            fn new(value: Self) -> $atomic {
                <$atomic>::new(value)
            }

            fn load(atomic: &$atomic, order: Ordering) -> Self {
                atomic.load(order)
            }

            fn store(atomic: &$atomic, value: Self, order: Ordering) {
                atomic.store(value, order);
            }

            fn swap(atomic: &$atomic, value: Self, order: Ordering) -> Self {
                atomic.swap(value, order)
            }

            fn compare_exchange(
                atomic: &$atomic,
                old: Self,
                new: Self,
                order: Ordering,
            ) -> Result<Self, Self> {
                // A failed operation has no ordering in the kernel.
                atomic.compare_exchange(old, new, order, Ordering::Relaxed)
            }
        }
    };
}

atomic_type!([] bool: AtomicBool);
atomic_type!([] i64: AtomicI64);
atomic_type!([] u64: AtomicU64);
atomic_type!([T] *mut T: AtomicPtr<T>);

pub(crate) struct Atomic<T: AtomicType>(T::Atomic);

impl<T: AtomicType> Atomic<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(T::new(value))
    }

    pub(crate) fn load<O: AnyOrder>(&self, _: O) -> T {
        T::load(&self.0, O::ORDER)
    }

    pub(crate) fn store<O: AnyOrder>(&self, value: T, _: O) {
        T::store(&self.0, value, O::ORDER);
    }

    pub(crate) fn xchg<O: AnyOrder>(&self, value: T, _: O) -> T {
        T::swap(&self.0, value, O::ORDER)
    }

    pub(crate) fn cmpxchg<O: AnyOrder>(&self, old: T, new: T, _: O) -> Result<T, T> {
        T::compare_exchange(&self.0, old, new, O::ORDER)
    }
}

impl Atomic<i64> {
    pub(crate) fn fetch_add<O: AnyOrder>(&self, value: i64, _: O) -> i64 {
        self.0.fetch_add(value, O::ORDER)
    }
}

impl Atomic<u64> {
    pub(crate) fn fetch_add<O: AnyOrder>(&self, value: u64, _: O) -> u64 {
        self.0.fetch_add(value, O::ORDER)
    }
}

/// The subset of `kernel::sync::barrier` that the code under test uses.
pub(crate) mod barrier {
    use super::*;

    pub(crate) struct Full;

    pub(crate) fn smp_mb(_: Full) {
        fence(Ordering::SeqCst);
    }
}
