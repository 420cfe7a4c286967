// SPDX-License-Identifier: GPL-2.0

//! The slab cache type.

use kernel::{
    num::casts::IntoSafeCast,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use super::memory::Memory;

use crate::{
    bindings,
    mm::gfp::Gfp,
    percpu::PerCpuInts, //
};

/// Returns a number that is unique since the kernel was booted.
fn unique() -> i64 {
    static LAST: Atomic<i64> = Atomic::new(0);

    loop {
        // SAFETY: `ktime_get()` has no preconditions.
        //
        // Microseconds are enough: no two copies of this library are loaded within one microsecond.
        let now = unsafe { bindings::ktime_get() } / 1000;
        let last = LAST.load(Relaxed);
        // OVERFLOW: The numbers are far below 2^63.
        let next = now.max(last.wrapping_add(1));

        if LAST.cmpxchg(last, next, Relaxed).is_ok() {
            return next;
        }
    }
}

/// A slab cache with memory for values of `T`.
///
/// # Invariants
///
/// - `raw` was returned by `kmem_cache_create()` for the size and the alignment of `T`, without a
///   constructor, and was not destroyed.
/// - The sum of `live` is the number of allocated objects, plus the number of pools that may have
///   other objects in reserve.
pub struct Cache<T> {
    raw: NonNull<bindings::kmem_cache>,
    name: CString,
    live: PerCpuInts<u64, 1>,
    _values: PhantomData<fn() -> T>,
}

// SAFETY: A cache contains no values, and `kmem_cache_destroy()` may run in any task.
unsafe impl<T> Send for Cache<T> {}

// SAFETY: A cache contains no values, and all CPUs may allocate and free objects concurrently.
unsafe impl<T> Sync for Cache<T> {}

impl<T> Cache<T> {
    /// The checked size of an object in bytes.
    const SIZE: u32 = {
        assert!(size_of::<T>() > 0, "values without a size need no memory");
        // The limit of `kmem_cache_create()` includes what `slab_debug` adds to each object, about
        // twice the alignment. Above the limit, it prints a stack trace.
        assert!(
            size_of::<T>() <= bindings::KMALLOC_MAX_SIZE as usize / 2,
            "values are too large for a slab"
        );
        // CAST: Less than `KMALLOC_MAX_SIZE`, which fits into 32 bits.
        size_of::<T>() as u32
    };

    /// The checked alignment of an object in bytes.
    const ALIGN: u32 = {
        assert!(
            align_of::<T>() <= kernel::page::PAGE_SIZE,
            "values are aligned to more than a page"
        );
        // CAST: At most `PAGE_SIZE`.
        align_of::<T>() as u32
    };

    /// Creates a cache.
    ///
    /// `/proc/slabinfo` lists the cache by `name` followed by a unique number: two caches with the
    /// same name trigger a kernel warning, and a cache that was not destroyed keeps its name. The
    /// kernel may instead merge the cache with another cache of similar objects.
    ///
    /// Returns [`EINVAL`] if `name` is empty, longer than 32 bytes, or has other characters than
    /// ASCII letters, digits, `-` and `_`. Returns [`ENOMEM`] if memory is short.
    ///
    /// Context: Process context. May sleep.
    pub fn new(name: &CStr) -> Result<Self> {
        Self::with_flags(name, 0)
    }

    /// Creates a cache whose memory counts as reclaimable, for objects that a shrinker frees.
    ///
    /// Otherwise behaves as [`new()`](Self::new).
    pub(crate) fn reclaimable(name: &CStr) -> Result<Self> {
        Self::with_flags(name, bindings::SLAB_RECLAIM_ACCOUNT)
    }

    fn with_flags(name: &CStr, flags: bindings::slab_flags_t) -> Result<Self> {
        let name = core::str::from_utf8(name.to_bytes()).map_err(|_| EINVAL)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=32).contains(&name.len()) || !name.bytes().all(fits) {
            return Err(EINVAL);
        }
        let name = CString::try_from_fmt(fmt!("{}-{}", name, unique()))?;
        let live = PerCpuInts::new()?;

        // SAFETY:
        // - `name` is a string. `kstrdup_const()` copies it, because it is not in the kernel's
        //   rodata.
        // - The size and the alignment, a power of two, were checked.
        // - The flags do not change the layout of objects.
        let raw = unsafe {
            bindings::kmem_cache_create(name.as_char_ptr(), Self::SIZE, Self::ALIGN, flags)
        };
        // INVARIANT: The cache was just created, and has no objects.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            name,
            live,
            _values: PhantomData,
        })
    }

    /// Allocates memory for a value.
    ///
    /// Returns [`ENOMEM`].
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    #[inline]
    pub fn alloc(&self, gfp: Gfp) -> Result<Memory<&Self>> {
        Memory::new(self, gfp)
    }

    /// Allocates memory for a value that holds a reference to the cache.
    ///
    /// Otherwise behaves as [`alloc`](Self::alloc). Costs an atomic operation on the reference
    /// count of the cache, which all CPUs share.
    ///
    /// Context: As [`alloc`](Self::alloc).
    #[inline]
    pub fn alloc_arc(self: &Arc<Self>, gfp: Gfp) -> Result<Memory<Arc<Self>>> {
        Memory::new(self.clone(), gfp)
    }

    /// Allocates memory for a value that may be added to `lru`.
    ///
    /// Returns [`ENOMEM`].
    ///
    /// # Safety
    ///
    /// `lru` must be initialised.
    pub(crate) unsafe fn alloc_lru(
        &self,
        lru: *mut bindings::list_lru,
        gfp: Gfp,
    ) -> Result<NonNull<T>> {
        // SAFETY: The cache exists by the type invariants, and `lru` is initialised by the safety
        // requirements.
        let object =
            unsafe { bindings::kmem_cache_alloc_lru_noprof(self.as_raw(), lru, gfp.as_raw()) };
        let object = NonNull::new(object.cast()).ok_or(ENOMEM)?;
        self.taken(1);
        Ok(object)
    }

    /// Frees memory from [`alloc_lru()`](Self::alloc_lru).
    ///
    /// # Safety
    ///
    /// `object` must be from this cache, and must not be used again.
    pub(crate) unsafe fn free(&self, object: NonNull<T>) {
        self.returned(1);
        // SAFETY: By the safety requirements.
        unsafe { bindings::kmem_cache_free(self.as_raw(), object.as_ptr().cast()) };
    }

    /// Returns the C cache.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::kmem_cache {
        self.raw.as_ptr()
    }

    /// Returns the number of objects that count as allocated.
    #[cfg(kscale_kunit)]
    pub(crate) fn live(&self) -> u64 {
        self.live.at::<0>().sum()
    }

    /// Counts `count` objects that were allocated.
    #[inline]
    pub(crate) fn taken(&self, count: usize) {
        // INVARIANT: The number of allocated objects grew by `count`.
        self.live.at::<0>().add(count.into_safe_cast());
    }

    /// Counts `count` objects that are about to be freed.
    #[inline]
    pub(crate) fn returned(&self, count: usize) {
        // INVARIANT: The number of allocated objects shrinks by `count`.
        self.live.at::<0>().sub(count.into_safe_cast());
    }
}

/// May sleep. Waits for every CPU. See "Forgotten objects" in the [module](super).
impl<T> Drop for Cache<T> {
    fn drop(&mut self) {
        // The cache is owned, so there are no concurrent allocations or frees.
        if self.live.at::<0>().sum() == 0 {
            // SAFETY: The cache has no objects, and is not used again.
            unsafe { bindings::kmem_cache_destroy(self.as_raw()) };
        } else {
            pr_err!(
                "slab: cache {} still has objects on drop, leaking it\n",
                self.name.to_str().unwrap_or_default()
            );
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_slab)]
mod tests {
    use super::*;

    use crate::mm::mempool::{
        Mempool,
        Slab, //
    };

    use core::mem::{
        self,
        MaybeUninit, //
    };

    #[test]
    fn names_have_valid_characters() {
        // Name, whether it is accepted.
        let rows = [
            (c"", false),
            (c"a", true),
            (c"Requests_of-3", true),
            (c"two words", false),
            (c"a/b", false),
            (c"caf\u{e9}", false),
            (c"\xff", false),
            (c"new\nline", false),
            (c"12345678901234567890123456789012", true),
            (c"123456789012345678901234567890123", false),
        ];

        for (name, accepted) in rows {
            let result = Cache::<u64>::new(name).map(drop);
            assert_eq!(result, if accepted { Ok(()) } else { Err(EINVAL) });
        }
    }

    #[test]
    fn equal_names_are_allowed() -> Result {
        let first = Cache::<u64>::new(c"kunit-twin")?;
        let second = Cache::<u64>::new(c"kunit-twin")?;

        assert!(first.name.to_bytes() != second.name.to_bytes());
        assert!(first.name.to_bytes().starts_with(b"kunit-twin-"));
        Ok(())
    }

    #[test]
    fn unique_numbers_only_grow() {
        let mut last = 0;
        for _ in 0..1000 {
            let next = unique();
            assert!(next > last);
            last = next;
        }
    }

    #[test]
    fn a_cache_counts_its_objects() -> Result {
        let cache = Cache::<[u64; 20]>::new(c"kunit-count")?;
        assert_eq!(cache.live(), 0);

        let kept = cache.alloc(Gfp::KERNEL)?.write([1; 20]);
        drop(cache.alloc(Gfp::KERNEL)?);
        assert_eq!(cache.live(), 1);

        drop(kept);
        assert_eq!(cache.live(), 0);
        Ok(())
    }

    #[test]
    fn pool_cache_counts_its_reserve() -> Result {
        let cache = Cache::<u64>::new(c"kunit-pool")?;

        let pool = KBox::pin_init(Mempool::new(2, Slab::new(&cache)), GFP_KERNEL)?;
        assert_eq!(cache.live(), 1);
        let memory = pool.alloc(Gfp::KERNEL)?;
        assert_eq!(cache.live(), 2);

        drop(memory);
        drop(pool);
        assert_eq!(cache.live(), 0);
        Ok(())
    }

    #[test]
    fn bulk_counts_each_object() -> Result {
        let cache = Cache::<u64>::new(c"kunit-bulk")?;
        let pool = KBox::pin_init(Mempool::new(4, Slab::new(&cache)), GFP_KERNEL)?;
        let mut slots = [const { MaybeUninit::uninit() }; 3];

        let bulk = pool.alloc_bulk(&mut slots)?;
        assert_eq!(cache.live(), 4);
        drop(bulk);
        assert_eq!(cache.live(), 1);
        Ok(())
    }

    #[test]
    fn cache_with_leaked_objects_is_leaked() -> Result {
        let cache = Cache::<[u64; 20]>::new(c"kunit-forgotten")?;
        let raw = cache.as_raw();
        let value = mem::ManuallyDrop::new(cache.alloc(Gfp::KERNEL)?.write([7; 20]));
        let object: *const [u64; 20] = &**value;

        drop(cache);

        // SAFETY: A forgotten value does not move, and its memory stays allocated.
        assert_eq!(unsafe { object.read() }, [7; 20]);
        // SAFETY: The cache exists, and the object is from it and has no other owner.
        unsafe { bindings::kmem_cache_free(raw, object.cast_mut().cast()) };
        // SAFETY: The cache has no objects, and is not used again.
        unsafe { bindings::kmem_cache_destroy(raw) };
        Ok(())
    }

    #[test]
    fn objects_may_keep_their_cache_alive() -> Result {
        let cache = Arc::new(Cache::<u64>::new(c"kunit-arc")?, GFP_KERNEL)?;

        let value = cache.alloc_arc(Gfp::KERNEL)?.write(3);
        let memory = cache.alloc_arc(Gfp::KERNEL)?;
        drop(cache);

        assert_eq!(*value, 3);
        drop(value);
        assert_eq!(*memory.write(4), 4);
        Ok(())
    }

    #[test]
    fn failed_initialiser_frees_the_memory() -> Result {
        let cache = Cache::<u64>::new(c"kunit-failed")?;

        let failed = cache.alloc(Gfp::KERNEL)?.write_init(Err::<u64, _>(EIO));
        assert_eq!(failed.err(), Some(EIO));
        let failed = cache.alloc(Gfp::KERNEL)?.write_pin_init(Err::<u64, _>(EIO));
        assert_eq!(failed.err(), Some(EIO));

        assert_eq!(cache.live(), 0);
        Ok(())
    }

    /// A value whose alignment is larger than its content.
    #[repr(align(1024))]
    struct Aligned([u8; 100]);

    #[test]
    fn objects_are_aligned_and_apart() -> Result {
        const COUNT: usize = 20;
        let cache = Cache::<Aligned>::new(c"kunit-aligned")?;
        let odd = Cache::<[u8; 100]>::new(c"kunit-odd")?;
        let mut values = KVec::with_capacity(COUNT, GFP_KERNEL)?;
        let mut odd_values = KVec::with_capacity(COUNT, GFP_KERNEL)?;

        for number in 0..COUNT {
            let bytes = [number as u8; 100];
            values.push(cache.alloc(Gfp::KERNEL)?.write(Aligned(bytes)), GFP_KERNEL)?;
            odd_values.push(odd.alloc(Gfp::KERNEL)?.write(bytes), GFP_KERNEL)?;
        }

        for (number, (value, odd)) in values.iter().zip(&odd_values).enumerate() {
            assert_eq!(core::ptr::from_ref(&**value).addr() % 1024, 0);
            assert!(value.0 == [number as u8; 100] && **odd == [number as u8; 100]);
        }
        Ok(())
    }

    #[test]
    fn many_objects_are_freed() -> Result {
        const BYTES: usize = 256 << 10;
        let cache = Cache::<[u8; BYTES]>::new(c"kunit-many")?;
        let gfp = Gfp::KERNEL | Gfp::NORETRY | Gfp::NOWARN;

        assert!(crate::mm::page::frees_memory(BYTES, || {
            drop(cache.alloc(gfp)?);
            Ok(())
        })?);
        assert_eq!(cache.live(), 0);
        Ok(())
    }
}
