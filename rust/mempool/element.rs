// SPDX-License-Identifier: GPL-2.0

//! One page of a memory pool.

use kernel::prelude::*;

use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};

use super::{
    Allocator,
    Mempool, //
};

use crate::{
    bindings,
    gfp::Gfp,
    page::Page, //
};

impl<A: Allocator> Mempool<A> {
    /// Takes a page, from the allocator or else from the reserve.
    ///
    /// If neither has one, waits for a page to come back where `gfp` may sleep, and fails with
    /// [`ENOMEM`] where it may not. Who holds one page and waits for a second may wait for ever.
    ///
    /// Fails with [`EINVAL`] for [`Gfp::ZERO`], as pages from the reserve hold old data.
    ///
    /// Context: any but NMI. Sleeps if `gfp` allows it.
    pub fn alloc(&self, gfp: Gfp) -> Result<Element<'_, A>> {
        if gfp.contains(Gfp::ZERO) {
            return Err(EINVAL);
        }

        // SAFETY: `inner` is initialised by the type invariants.
        let page = unsafe { bindings::mempool_alloc_noprof(self.inner.get(), gfp.as_raw()) };
        let page = NonNull::new(page.cast()).ok_or(ENOMEM)?;
        self.taken.add_batch(1, Self::STATS_BATCH);

        Ok(Element {
            pool: self,
            // SAFETY: Elements come from `Page::into_raw()`, in `alloc_fn()` or by the type
            // invariants, and `mempool_alloc_noprof()` gives them to its caller.
            page: ManuallyDrop::new(unsafe { Page::from_raw(page) }),
        })
    }
}

/// A page from a [`Mempool`], returned to it on drop.
///
/// Do not forget it: its page would be missing from the reserve from then on. Pages are all alike,
/// so it is fine to swap another one in.
///
/// # Invariants
///
/// `page` is not used after drop.
#[must_use = "the page goes back to its pool at once"]
pub struct Element<'a, A: Allocator> {
    pool: &'a Mempool<A>,
    page: ManuallyDrop<Page>,
}

impl<A: Allocator> Deref for Element<'_, A> {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl<A: Allocator> DerefMut for Element<'_, A> {
    fn deref_mut(&mut self) -> &mut Page {
        &mut self.page
    }
}

impl<A: Allocator> Drop for Element<'_, A> {
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and `page` is not used after it by the type invariants.
        let page = unsafe { ManuallyDrop::take(&mut self.page) };

        // SAFETY: The pool is initialised by its type invariants.
        // INVARIANT: `page` comes from `Page::into_raw()`, and is given to the reserve, or else to
        // `free_fn()`.
        unsafe {
            bindings::mempool_free(page.into_raw().as_ptr().cast(), self.pool.inner.get());
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_element)]
mod tests {
    use super::*;

    use super::super::{
        counting::{
            counting_pool,
            Ledger, //
        },
        PageAllocator,
    };

    use kernel::{
        interrupt::local_interrupt_disable,
        sync::atomic::Relaxed, //
    };

    #[test]
    fn pages_come_from_the_allocator_while_it_has_some() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(2, &ledger)?;

        let first = pool.alloc(Gfp::NOIO)?;
        let second = pool.alloc(Gfp::NOWAIT)?;

        assert_eq!(ledger.live(), 4);
        assert_eq!(pool.stats().single_pages, 2);
        assert_eq!(pool.stats().reserve_pages, 0);
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

        assert_eq!(pool.stats().single_pages, 0);
        assert_eq!(pool.stats().reserve_pages, 10);
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
        drop(first);

        assert!(pool.alloc(Gfp::NOWAIT).is_ok());
        Ok(())
    }

    #[test]
    fn pages_may_not_be_asked_for_zeroed() -> Result {
        let pool = counting_pool(1, &Ledger::new()?)?;

        assert_eq!(pool.alloc(Gfp::NOIO | Gfp::ZERO).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn an_element_can_be_swapped_for_another_page() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(1, &ledger)?;
        let mut mine = Page::alloc(Gfp::KERNEL)?;
        mine.as_mut_slice().fill(0x42);

        let mut element = pool.alloc(Gfp::KERNEL)?;
        core::mem::swap(&mut *element, &mut mine);

        assert!(element.as_slice().iter().all(|&byte| byte == 0x42));
        drop(element);
        drop(pool);
        assert_eq!(ledger.live(), 0);
        Ok(())
    }

    #[test]
    fn pages_come_and_go_with_interrupts_off() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(1, &ledger)?;

        let irq = local_interrupt_disable();
        let from_allocator = pool.alloc(Gfp::ATOMIC)?;
        ledger.refuse();
        let from_reserve = pool.alloc(Gfp::ATOMIC)?;
        drop(from_reserve);
        drop(from_allocator);
        drop(irq);

        assert_eq!(pool.stats().reserve_pages, 1);
        assert_eq!(ledger.live(), 1);
        Ok(())
    }

    #[test]
    fn the_page_allocator_needs_no_limit() -> Result {
        let pool = KBox::pin_init(Mempool::new(1, PageAllocator), GFP_KERNEL)?;

        let _first = pool.alloc(Gfp::NOIO)?;
        let _second = pool.alloc(Gfp::NOIO)?;

        assert_eq!(pool.stats().single_pages, 2);
        Ok(())
    }
}
