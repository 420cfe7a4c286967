// SPDX-License-Identifier: GPL-2.0

//! One element of a memory pool.

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
    }, //
};

impl<S: Source> Mempool<S> {
    /// Takes memory, from the source or else from the reserve.
    ///
    /// If neither has any, waits for some to come back where `gfp` may sleep, and fails with
    /// [`ENOMEM`] where it may not. Who holds one element and waits for a second may wait for ever.
    ///
    /// Fails with [`EINVAL`] for [`Gfp::ZERO`], as memory from the reserve holds old data.
    ///
    /// Context: any but NMI. Sleeps if `gfp` allows it.
    #[inline]
    pub fn alloc(&self, gfp: Gfp) -> Result<Element<&Self>> {
        Element::alloc(self, gfp)
    }

    /// Takes memory that keeps the pool alive.
    ///
    /// As [`alloc`](Self::alloc) otherwise. Costs a reference to the pool, which all CPUs share.
    #[inline]
    pub fn alloc_arc(self: &Arc<Self>, gfp: Gfp) -> Result<Element<Arc<Self>>> {
        Element::alloc(self.clone(), gfp)
    }

    /// Takes memory from the reserve, if there is some.
    ///
    /// Context: any but NMI. Never sleeps.
    #[inline]
    pub fn alloc_preallocated(&self) -> Option<Element<&Self>> {
        // SAFETY: `inner` is initialised by the type invariants.
        let memory = unsafe { bindings::mempool_alloc_preallocated(self.inner.get()) };
        // SAFETY: It gives memory of the reserve to its caller.
        NonNull::new(memory).map(|memory| unsafe { Element::from_raw(self, memory) })
    }
}

/// What keeps a [`Mempool`] alive and as large as it is: a reference to it, or an [`Arc`].
///
/// # Safety
///
/// [`pool`](Self::pool) must always return the same pool, wherever `self` is moved to.
pub unsafe trait PoolRef {
    /// Where the memory of the pool is from.
    type Source: Source;

    /// Returns the pool.
    ///
    /// Context: any.
    fn pool(&self) -> &Mempool<Self::Source>;
}

// SAFETY: A reference does not change what it refers to.
unsafe impl<S: Source> PoolRef for &Mempool<S> {
    type Source = S;

    #[inline]
    fn pool(&self) -> &Mempool<S> {
        self
    }
}

// SAFETY: An `Arc` does not change what it refers to.
unsafe impl<S: Source> PoolRef for Arc<Mempool<S>> {
    type Source = S;

    #[inline]
    fn pool(&self) -> &Mempool<S> {
        self
    }
}

/// The memory of the pool of a `P`.
type MemoryOf<P> = <<P as PoolRef>::Source as Source>::Memory;

/// Memory from a [`Mempool`], returned to it on drop.
///
/// One of pages derefs to its [`Page`], and it is fine to swap another one in, as they are all
/// alike. What is for a value becomes a [`PoolBox`] by [`write`](Self::write), or by
/// `write_init()` and `write_pin_init()` of [`InPlaceWrite`]. If that fails, the memory goes back
/// to the pool.
///
/// Do not forget it: its memory would be missing from the reserve from then on.
///
/// # Invariants
///
/// - `memory` is from the source of the pool, which noted it as taken, or a page like those.
/// - `memory` is not used after drop.
#[must_use = "the memory goes back to its pool at once"]
pub struct Element<P: PoolRef> {
    pool: P,
    memory: ManuallyDrop<MemoryOf<P>>,
}

/// A value in memory from a [`Mempool`], which goes back to the pool once the value is dropped.
pub type PoolBox<P> = Boxed<Element<P>>;

impl<P: PoolRef> Element<P> {
    /// See [`Mempool::alloc`].
    #[inline]
    fn alloc(pool: P, gfp: Gfp) -> Result<Self> {
        if gfp.contains(Gfp::ZERO) {
            return Err(EINVAL);
        }

        // SAFETY: `inner` is initialised by the type invariants of `Mempool`.
        let memory =
            unsafe { bindings::mempool_alloc_noprof(pool.pool().inner.get(), gfp.as_raw()) };
        let memory = NonNull::new(memory).ok_or(ENOMEM)?;
        // SAFETY: It gives memory from the source, or of the reserve, to its caller.
        Ok(unsafe { Self::from_raw(pool, memory) })
    }

    /// Takes an element from C.
    ///
    /// # Safety
    ///
    /// `memory` must be an element of the pool, and the caller gives it away.
    #[inline]
    unsafe fn from_raw(pool: P, memory: NonNull<c_void>) -> Self {
        // SAFETY: All elements of the pool are what `from_raw()` takes.
        let memory = unsafe { MemoryOf::<P>::from_raw(memory) };
        // SAFETY: The memory is the caller's, who gives it away and has not noted it.
        unsafe { pool.pool().source.taken(1) };
        // SAFETY: By the safety requirements; noted above.
        unsafe { Self::new(pool, memory) }
    }

    /// Wraps memory.
    ///
    /// # Safety
    ///
    /// `memory` must be an element of the pool that the source noted as taken.
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

    /// Returns where the memory is from.
    #[inline]
    pub(super) fn source(&self) -> &P::Source {
        self.pool.pool().source()
    }

    /// Puts a value into the memory.
    ///
    /// Context: any.
    #[inline]
    pub fn write(self, value: <Self as Uninit>::Value) -> PoolBox<P>
    where
        Self: Uninit,
    {
        Boxed::write(self, value)
    }
}

// SAFETY: By the contract of `ValueMemory`. Forgotten memory is never used again, by the contract
// of `Memory`; what is dropped goes to the pool.
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

/// Does not sleep, unless it drops the last reference to a pool.
impl<P: PoolRef> Drop for Element<P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and `memory` is not used after it by the type invariants.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        let pool = self.pool.pool();
        // SAFETY: It is noted, or a page like those that are, by the type invariants, and given back
        // below.
        unsafe { pool.source.returned(1) };

        // SAFETY: The pool is initialised by its type invariants, and stays until this returns.
        // INVARIANT: `memory` is an element by the type invariants, and is given to the reserve,
        // or else to `FREE`.
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

    use crate::percpu::testing::interrupts_off_for_locks;

    use kernel::sync::atomic::Relaxed;

    #[test]
    fn memory_comes_from_the_source_while_it_has_some() -> Result {
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
    fn the_reserve_steps_in_and_is_refilled() -> Result {
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
    fn an_empty_reserve_fails_who_may_not_wait() -> Result {
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
    fn memory_may_not_be_asked_for_zeroed() -> Result {
        let pool = counting_pool(1, &Ledger::new()?)?;

        assert_eq!(pool.alloc(Gfp::NOIO | Gfp::ZERO).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn an_element_can_be_swapped_for_another_page() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(1, &ledger)?;
        let mut mine = Page::alloc(Gfp::KERNEL)?;
        mine.fill(0x42);

        let mut element = pool.alloc(Gfp::KERNEL)?;
        core::mem::swap(&mut *element, &mut mine);

        // SAFETY: It was filled above.
        let bytes = unsafe { element.assume_filled() }.as_slice();
        assert!(bytes.iter().all(|&byte| byte == 0x42));
        drop(element);
        drop(pool);
        assert_eq!(ledger.live(), 0);
        Ok(())
    }

    #[test]
    fn elements_come_and_go_with_interrupts_off() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(1, &ledger)?;

        let irq = interrupts_off_for_locks();
        let from_allocator = pool.alloc(Gfp::ATOMIC)?;
        ledger.refuse();
        let from_reserve = pool.alloc(Gfp::ATOMIC)?;
        drop(from_reserve);
        drop(from_allocator);
        drop(irq);

        assert_eq!(pool.source().stats().reserve, 1);
        assert_eq!(ledger.live(), 1);
        Ok(())
    }

    #[test]
    fn blocks_of_pages_are_as_large_as_their_order_says() -> Result {
        let pool = KBox::pin_init(Mempool::new(1, Pages::<3>), GFP_KERNEL)?;

        let mut first = pool.alloc(Gfp::NOIO)?;
        let mut reserved = pool.alloc_preallocated().ok_or(ENOMEM)?;
        let first = first.fill(1);
        reserved.fill(2);

        assert_eq!(first.as_slice().len(), Page::<3>::SIZE);
        assert!(first.as_slice().iter().all(|&byte| byte == 1));
        Ok(())
    }

    #[test]
    fn an_element_may_keep_its_pool_alive() -> Result {
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
