// SPDX-License-Identifier: GPL-2.0

//! Memory from a cache.

use kernel::{
    prelude::*,
    sync::Arc, //
};

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
    }, //
};

/// What keeps a [`Cache`] alive: itself, a reference to it, or an [`Arc`] of it.
///
/// # Safety
///
/// [`cache`](Self::cache) must always return the same cache, wherever `self` is moved to.
pub unsafe trait CacheRef {
    /// What the cache has memory for.
    type Value;

    /// Returns the cache.
    ///
    /// Context: any.
    fn cache(&self) -> &Cache<Self::Value>;
}

// SAFETY: A cache is the same wherever it is: it is what `raw` points to.
unsafe impl<T> CacheRef for Cache<T> {
    type Value = T;

    #[inline]
    fn cache(&self) -> &Cache<T> {
        self
    }
}

// SAFETY: A reference does not change what it refers to.
unsafe impl<T> CacheRef for &Cache<T> {
    type Value = T;

    #[inline]
    fn cache(&self) -> &Cache<T> {
        self
    }
}

// SAFETY: An `Arc` does not change what it refers to.
unsafe impl<T> CacheRef for Arc<Cache<T>> {
    type Value = T;

    #[inline]
    fn cache(&self) -> &Cache<T> {
        self
    }
}

/// Memory for a value, from a [`Cache`] and given back to it on drop.
///
/// Forgotten, it stays allocated, and so does its cache.
///
/// # Invariants
///
/// `object` is one of the cache, and `self`'s own.
#[must_use = "the memory goes back to its cache at once"]
pub struct Memory<R: CacheRef> {
    cache: R,
    object: NonNull<R::Value>,
}

// SAFETY: There is no value in it, and it may be given back by any task that may have `R`.
unsafe impl<R: CacheRef + Send> Send for Memory<R> {}

// SAFETY: There is nothing to do with a `&Memory`.
unsafe impl<R: CacheRef + Sync> Sync for Memory<R> {}

impl<R: CacheRef> Memory<R> {
    #[inline]
    pub(super) fn new(cache: R, gfp: Gfp) -> Result<Self> {
        // SAFETY: The cache is there by its type invariants.
        let object =
            unsafe { bindings::kmem_cache_alloc_noprof(cache.cache().as_raw(), gfp.as_raw()) };
        let object = NonNull::new(object.cast()).ok_or(ENOMEM)?;
        cache.cache().taken(1);
        // INVARIANT: The cache gave it to its caller.
        Ok(Self { cache, object })
    }

    /// Puts a value into the memory.
    ///
    /// Context: any.
    #[inline]
    pub fn write(self, value: R::Value) -> Boxed<Self> {
        Boxed::write(self, value)
    }
}

// SAFETY: By the type invariants, and as the cache was created for values of this type.
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

/// Does not sleep, unless it drops the last reference to a cache.
impl<R: CacheRef> Drop for Memory<R> {
    #[inline]
    fn drop(&mut self) {
        let cache = self.cache.cache();
        cache.returned(1);
        // SAFETY: `object` is one of the cache by the type invariants, and not used again.
        unsafe { bindings::kmem_cache_free(cache.as_raw(), self.object.as_ptr().cast()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_slab_memory)]
mod tests {
    use super::*;

    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    #[test]
    fn a_value_is_dropped_before_its_memory() -> Result {
        let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        struct Noted(u64, Arc<Atomic<usize>>);
        impl Drop for Noted {
            fn drop(&mut self) {
                self.1.add(1, Relaxed);
            }
        }
        let cache = Cache::new(c"kunit-value")?;

        let mut value = cache.alloc(Gfp::KERNEL)?.write(Noted(1, dropped.clone()));
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
