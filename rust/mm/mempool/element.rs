// SPDX-License-Identifier: GPL-2.0

//! A single element of a memory pool.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use core::{
    ffi::c_void,
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};

use super::{
    memory::{
        Memory,
        ValueMemory, //
    },
    pool::Mempool,
    source::Source, //
};

use crate::{
    bindings,
    mm::{
        boxed::{
            Boxed,
            Uninit, //
        },
        gfp::Gfp,
        page::Page, //
    },
    sync::StableRef, //
};

impl<S: Source> Mempool<S> {
    /// Allocates an element from the source, or else from the reserve.
    ///
    /// If both are empty, waits for a freed element if `gfp` allows sleeping, and returns
    /// [`ENOMEM`] otherwise. A task that holds an element while it waits for a second one may
    /// deadlock.
    ///
    /// Returns [`EINVAL`] for [`Gfp::ZERO`], as memory from the reserve contains old data.
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    #[inline]
    pub fn alloc(&self, gfp: Gfp) -> Result<Element<&Self>> {
        Element::alloc(self, gfp)
    }

    /// Allocates an element that holds a reference to the pool.
    ///
    /// Otherwise behaves as [`alloc`](Self::alloc). Costs an atomic operation on the reference
    /// count of the pool, which all CPUs share.
    ///
    /// Context: As [`alloc`](Self::alloc).
    #[inline]
    pub fn alloc_arc(self: &Arc<Self>, gfp: Gfp) -> Result<Element<Arc<Self>>> {
        Element::alloc(self.clone(), gfp)
    }

    /// Allocates an element from the reserve, or returns [`None`] if the reserve is empty.
    ///
    /// Context: Any context except NMI. Never sleeps.
    #[inline]
    pub fn alloc_preallocated(&self) -> Option<Element<&Self>> {
        // SAFETY: `inner` is initialised by the type invariants.
        let memory = unsafe { bindings::mempool_alloc_preallocated(self.inner.get()) };
        // SAFETY: C transfers the ownership of memory of the reserve to the caller.
        NonNull::new(memory).map(|memory| unsafe { Element::from_raw(self, memory) })
    }
}

/// A handle that keeps a [`Mempool`] alive and its size constant: a reference or an [`Arc`].
pub trait PoolRef: StableRef<Target = Mempool<<Self as PoolRef>::Source>> {
    /// The source of the pool.
    type Source: Source;
}

impl<S: Source, R: StableRef<Target = Mempool<S>>> PoolRef for R {
    type Source = S;
}

/// The memory type of the pool of a `P`.
type MemoryOf<P> = <<P as PoolRef>::Source as Source>::Memory;

/// Memory from a [`Mempool`], returned to it on drop.
///
/// An element of pages derefs to its [`Page`], which may be swapped for another page of the same
/// order. An element for a value becomes a [`PoolBox`] by [`write`](Self::write), or by
/// `write_init()` and `write_pin_init()` of [`InPlaceWrite`]. A failed initialiser returns the
/// memory to the pool.
///
/// Do not forget an element: the reserve stays one element short.
///
/// # Invariants
///
/// - `memory` is from the source of the pool, which recorded it as taken, or is an equivalent page.
/// - `memory` is not used after drop.
#[must_use = "the memory goes back to its pool at once"]
pub struct Element<P: PoolRef> {
    pool: P,
    memory: ManuallyDrop<MemoryOf<P>>,
}

/// A value in memory from a [`Mempool`]. The memory returns to the pool after the value is dropped.
pub type PoolBox<P> = Boxed<Element<P>>;

impl<P: PoolRef> Element<P> {
    /// Allocates an element, see [`Mempool::alloc`].
    #[inline]
    fn alloc(pool: P, gfp: Gfp) -> Result<Self> {
        if gfp.contains(Gfp::ZERO) {
            return Err(EINVAL);
        }

        // SAFETY: `inner` is initialised by the type invariants of `Mempool`.
        let memory =
            unsafe { bindings::mempool_alloc_noprof(pool.get_ref().inner.get(), gfp.as_raw()) };
        let memory = NonNull::new(memory).ok_or(ENOMEM)?;
        // SAFETY: C transfers the ownership of memory from the source or the reserve to the caller.
        Ok(unsafe { Self::from_raw(pool, memory) })
    }

    /// Takes ownership of an element from C.
    ///
    /// # Safety
    ///
    /// `memory` must be an element of the pool, and the caller must give up its ownership.
    #[inline]
    unsafe fn from_raw(pool: P, memory: NonNull<c_void>) -> Self {
        // SAFETY: All elements of the pool are valid for `from_raw()`.
        let memory = unsafe { MemoryOf::<P>::from_raw(memory) };
        // SAFETY: The caller gives up its ownership of the memory, and has not recorded it.
        unsafe { pool.get_ref().source.taken(1) };
        // SAFETY: By the safety requirements; recorded above.
        unsafe { Self::new(pool, memory) }
    }

    /// Creates an element from memory.
    ///
    /// # Safety
    ///
    /// `memory` must be an element of the pool that the source recorded as taken.
    #[inline]
    pub(super) unsafe fn new(pool: P, memory: MemoryOf<P>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            pool,
            memory: ManuallyDrop::new(memory),
        }
    }

    /// Returns the memory.
    #[inline]
    pub(super) fn memory(&self) -> &MemoryOf<P> {
        &self.memory
    }

    /// Returns the source of the memory.
    #[inline]
    pub(super) fn source(&self) -> &P::Source {
        self.pool.get_ref().source()
    }

    /// Writes a value to the memory.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn write(self, value: <Self as Uninit>::Value) -> PoolBox<P>
    where
        Self: Uninit,
    {
        Boxed::write(self, value)
    }
}

// SAFETY: By the contract of `ValueMemory`. Forgotten memory is never used again, by the contract
// of `Memory`. Dropped memory returns to the pool.
unsafe impl<P: PoolRef> Uninit for Element<P>
where
    MemoryOf<P>: ValueMemory,
{
    type Value = <MemoryOf<P> as ValueMemory>::Value;

    #[inline]
    fn as_ptr(&self) -> NonNull<Self::Value> {
        self.memory.as_value_ptr()
    }
}

impl<P: PoolRef, T> InPlaceWrite<T> for Element<P>
where
    MemoryOf<P>: ValueMemory<Value = T>,
{
    type Initialized = PoolBox<P>;

    #[inline]
    fn write_init<E>(self, init: impl Init<T, E>) -> Result<PoolBox<P>, E> {
        Boxed::init(self, init)
    }

    #[inline]
    fn write_pin_init<E>(self, init: impl PinInit<T, E>) -> Result<Pin<PoolBox<P>>, E> {
        Boxed::pin_init(self, init)
    }
}

impl<P: PoolRef, const ORDER: u32> Deref for Element<P>
where
    P::Source: Source<Memory = Page<ORDER>>,
{
    type Target = Page<ORDER>;

    #[inline]
    fn deref(&self) -> &Page<ORDER> {
        &self.memory
    }
}

impl<P: PoolRef, const ORDER: u32> DerefMut for Element<P>
where
    P::Source: Source<Memory = Page<ORDER>>,
{
    #[inline]
    fn deref_mut(&mut self) -> &mut Page<ORDER> {
        &mut self.memory
    }
}

/// Never sleeps, unless the element holds the last reference to its pool.
impl<P: PoolRef> Drop for Element<P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and `memory` is not used after it by the type invariants.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        let pool = self.pool.get_ref();
        // SAFETY: The memory is recorded as taken, or is an equivalent page, by the type
        // invariants. It is returned below.
        unsafe { pool.source.returned(1) };

        // SAFETY: The pool is initialised by its type invariants, and lives until this returns.
        // INVARIANT: `memory` is an element by the type invariants. C puts it into the reserve or
        // passes it to `FREE`.
        unsafe { bindings::mempool_free(memory.into_raw().as_ptr(), pool.inner.get()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_element)]
mod tests {
    use super::*;

    use super::super::{
        test_allocator::{
            counting,
            counting_pool,
            Ledger, //
        },
        Pages, //
    };

    use crate::percpu::testing::with_interrupts_off_for_locks;

    use core::mem::MaybeUninit;

    use kernel::sync::atomic::Relaxed;

    #[test]
    fn source_is_used_before_the_reserve() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(2, &ledger)?;

        let first = pool.alloc(Gfp::NOIO)?;
        let second = pool.alloc(Gfp::NOWAIT)?;

        assert_eq!(ledger.live(), 4);
        assert_eq!(pool.source().stats().single, 2);
        assert_eq!(pool.source().stats().reserve, 0);
        drop(first);
        drop(second);
        assert_eq!(ledger.live(), 2);
        Ok(())
    }

    #[test]
    fn reserve_is_used_and_refilled() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(2, &ledger)?;
        ledger.refuse();

        for _ in 0..10 {
            let element = pool.alloc(Gfp::NOWAIT)?;
            assert_eq!(element.references().load(Relaxed), 1);
        }

        assert_eq!(pool.source().stats().single, 0);
        assert_eq!(pool.source().stats().reserve, 10);
        assert_eq!(ledger.live(), 2);
        Ok(())
    }

    #[test]
    fn empty_reserve_fails_atomic_allocations() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(2, &ledger)?;
        ledger.refuse();

        let first = pool.alloc(Gfp::NOWAIT)?;
        let _second = pool.alloc(Gfp::ATOMIC)?;
        assert_eq!(pool.alloc(Gfp::NOWAIT).err(), Some(ENOMEM));
        assert!(pool.alloc_preallocated().is_none());
        drop(first);

        assert!(pool.alloc(Gfp::NOWAIT).is_ok());
        assert!(pool.alloc_preallocated().is_some());
        Ok(())
    }

    #[test]
    fn zeroed_allocations_are_rejected() -> Result {
        let pool = counting_pool(1, &Ledger::new()?)?;

        assert_eq!(pool.alloc(Gfp::NOIO | Gfp::ZERO).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn element_page_can_be_swapped() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(1, &ledger)?;
        let mut mine = Page::alloc(Gfp::KERNEL)?;
        mine.fill(0x42);

        let mut element = pool.alloc(Gfp::KERNEL)?;
        core::mem::swap(&mut *element, &mut mine);

        // SAFETY: The page was filled above.
        let bytes = unsafe { element.assume_filled() }.as_slice();
        assert!(bytes.iter().all(|&byte| byte == 0x42));
        drop(element);
        drop(pool);
        assert_eq!(ledger.live(), 0);
        Ok(())
    }

    #[test]
    fn elements_are_allocated_and_freed_with_interrupts_off() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(1, &ledger)?;

        with_interrupts_off_for_locks(|| {
            let from_allocator = pool.alloc(Gfp::ATOMIC)?;
            ledger.refuse();
            let from_reserve = pool.alloc(Gfp::ATOMIC)?;
            drop(from_reserve);
            drop(from_allocator);
            Ok::<_, Error>(())
        })?;

        assert_eq!(pool.source().stats().reserve, 1);
        assert_eq!(ledger.live(), 1);
        Ok(())
    }

    #[test]
    fn page_elements_have_the_size_of_their_order() -> Result {
        let pool = KBox::pin_init(Mempool::new(1, Pages::<3>), GFP_KERNEL)?;

        let mut first = pool.alloc(Gfp::NOIO)?;
        let mut reserved = pool.alloc_preallocated().ok_or(ENOMEM)?;
        let first = first.fill(1);
        reserved.fill(2);

        assert_eq!(first.as_slice().len(), Page::<3>::SIZE);
        assert!(first.as_slice().iter().all(|&byte| byte == 1));
        Ok(())
    }

    /// A device may take a reference to any page of a block. That of a compound page is one to the
    /// whole block.
    #[test]
    fn blocks_are_compound_pages() -> Result {
        let mut pool = KBox::pin_init(Mempool::new(1, Pages::<2>), GFP_KERNEL)?;
        pool.as_mut().resize(3)?;
        let order = |element: &Page<2>| {
            // SAFETY: The page is allocated, and `Pages` allocates compound pages.
            let is_compound = unsafe { bindings::page_head(element.as_ptr()) };
            // SAFETY: As above.
            is_compound.then(|| unsafe { bindings::compound_order(element.as_ptr()) })
        };

        assert_eq!(order(&*pool.alloc(Gfp::NOIO)?), Some(2));
        let reserve = [(); 3].map(|()| pool.alloc_preallocated());
        for element in reserve {
            assert_eq!(order(&*element.ok_or(ENOMEM)?), Some(2));
        }
        let mut slots = [const { MaybeUninit::uninit() }; 3];
        let mut bulk = pool.alloc_bulk(&mut slots)?;
        while let Some(element) = bulk.take() {
            assert_eq!(order(&element), Some(2));
        }

        let single = KBox::pin_init(Mempool::new(1, Pages::<0>), GFP_KERNEL)?;
        let page = single.alloc_preallocated().ok_or(ENOMEM)?;
        // SAFETY: The page is allocated.
        assert!(!unsafe { bindings::page_head(page.as_ptr()) });
        Ok(())
    }

    #[test]
    fn arc_element_keeps_its_pool_alive() -> Result {
        let ledger = Ledger::new()?;
        let pool = Arc::pin_init(Mempool::new(2, counting(&ledger)), GFP_KERNEL)?;

        let element = pool.alloc_arc(Gfp::KERNEL)?;
        drop(pool);
        assert_eq!(ledger.live(), 3);

        drop(element);
        assert_eq!(ledger.live(), 0);
        Ok(())
    }
}
