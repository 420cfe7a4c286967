// SPDX-License-Identifier: GPL-2.0

//! Memory from a slab cache.

use kernel::prelude::*;

use core::ptr::NonNull;

use super::cache::Cache;

use crate::{
    bindings,
    mm::{
        boxed::{
            Boxed,
            Uninit, //
        },
        gfp::Gfp, //
    },
    sync::StableRef, //
};

/// A handle that keeps a [`Cache`] alive: the cache itself, a reference, or an
/// [`Arc`](kernel::sync::Arc).
pub trait CacheRef: StableRef<Target = Cache<<Self as CacheRef>::Value>> {
    /// The type of the values of the cache.
    type Value;
}

impl<T, R: StableRef<Target = Cache<T>>> CacheRef for R {
    type Value = T;
}

// SAFETY: A moved cache is the same cache: `raw` does not change.
unsafe impl<T> StableRef for Cache<T> {
    type Target = Self;

    #[inline]
    fn get_ref(&self) -> &Self {
        self
    }
}

/// Memory for a value from a [`Cache`], freed to the cache on drop.
///
/// Forgotten memory stays allocated, and its cache is never destroyed.
///
/// # Invariants
///
/// `object` is an object of the cache, and `self` is its only owner.
#[must_use = "the memory goes back to its cache at once"]
pub struct Memory<R: CacheRef> {
    cache: R,
    object: NonNull<R::Value>,
}

// SAFETY: The memory contains no value. Any task that may own `R` may free the memory.
unsafe impl<R: CacheRef + Send> Send for Memory<R> {}

// SAFETY: A `&Memory` gives access to the address only.
unsafe impl<R: CacheRef + Sync> Sync for Memory<R> {}

impl<R: CacheRef> Memory<R> {
    #[inline]
    pub(super) fn new(cache: R, gfp: Gfp) -> Result<Self> {
        // SAFETY: The cache exists by its type invariants.
        let object =
            unsafe { bindings::kmem_cache_alloc_noprof(cache.get_ref().as_raw(), gfp.as_raw()) };
        let object = NonNull::new(object.cast()).ok_or(ENOMEM)?;
        cache.get_ref().taken(1);
        // INVARIANT: The cache transferred the ownership of the object to the caller.
        Ok(Self { cache, object })
    }

    /// Writes a value to the memory.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn write(self, value: R::Value) -> Boxed<Self> {
        Boxed::write(self, value)
    }
}

// SAFETY: By the type invariants, and because the cache was created for values of this type.
unsafe impl<R: CacheRef> Uninit for Memory<R> {
    type Value = R::Value;

    #[inline]
    fn as_ptr(&self) -> NonNull<R::Value> {
        self.object
    }
}

impl<R: CacheRef<Value = T>, T> InPlaceWrite<T> for Memory<R> {
    type Initialized = Boxed<Self>;

    #[inline]
    fn write_init<E>(self, init: impl Init<T, E>) -> Result<Boxed<Self>, E> {
        Boxed::init(self, init)
    }

    #[inline]
    fn write_pin_init<E>(self, init: impl PinInit<T, E>) -> Result<Pin<Boxed<Self>>, E> {
        Boxed::pin_init(self, init)
    }
}

/// Never sleeps, unless the memory holds the last reference to its cache.
impl<R: CacheRef> Drop for Memory<R> {
    #[inline]
    fn drop(&mut self) {
        let cache = self.cache.get_ref();
        cache.returned(1);
        // SAFETY: `object` is from the cache by the type invariants, and is not used again.
        unsafe { bindings::kmem_cache_free(cache.as_raw(), self.object.as_ptr().cast()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_slab_memory)]
mod tests {
    use super::*;

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    #[test]
    fn a_value_is_dropped_before_its_memory() -> Result {
        let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        struct Tracked(u64, Arc<Atomic<usize>>);
        impl Drop for Tracked {
            fn drop(&mut self) {
                self.1.add(1, Relaxed);
            }
        }
        let cache = Cache::new(c"kunit-value")?;

        let mut value = cache.alloc(Gfp::KERNEL)?.write(Tracked(1, dropped.clone()));
        let memory = cache.alloc(Gfp::KERNEL)?;
        value.0 += 1;

        assert_eq!(value.0, 2);
        drop(value);
        assert_eq!(dropped.load(Relaxed), 1);
        drop(memory);
        assert_eq!(dropped.load(Relaxed), 1);
        Ok(())
    }
}
