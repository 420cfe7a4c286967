// SPDX-License-Identifier: GPL-2.0

//! Many pages of a memory pool at once, for C.

use kernel::prelude::*;

use core::{
    ptr,
    slice, //
};

use super::{
    Allocator,
    Mempool, //
};

use crate::{
    bindings,
    page::Page, //
};

impl<A: Allocator> Mempool<A> {
    /// Takes `pages.len()` pages for C, and overwrites `pages` with them.
    ///
    /// Each has a single reference, which is the caller's, and must come back through
    /// [`Mempool::free_bulk_raw`].
    ///
    /// Fails, with `pages` all `NULL`, and otherwise behaves as
    /// [`alloc_bulk`](Self::alloc_bulk).
    ///
    /// Context: process. May sleep.
    pub(crate) fn alloc_bulk_raw(&self, pages: &mut [*mut bindings::page]) -> Result {
        pages.fill(ptr::null_mut());

        // SAFETY: All of `pages` are `NULL`.
        self.fill(unsafe { as_slots(pages) })
    }

    /// Returns pages to the pool or frees them, and sets `pages` to `NULL`.
    ///
    /// `NULL` entries are allowed.
    ///
    /// # Safety
    ///
    /// - What is not `NULL` must be a page of order 0 from the page allocator.
    /// - The caller must own its only reference, and gives it away.
    /// - Nothing else may access its bytes from now on.
    ///
    /// Context: any but NMI. Never sleeps.
    pub(crate) unsafe fn free_bulk_raw(&self, pages: &mut [*mut bindings::page]) {
        // SAFETY: By the safety requirements.
        self.empty(unsafe { as_slots(pages) });
    }
}

/// Views pointers of C as what they own.
///
/// # Safety
///
/// What is not `NULL` must be fit for [`Page::from_raw`].
unsafe fn as_slots(pages: &mut [*mut bindings::page]) -> &mut [Option<Page>] {
    // SAFETY: `Option<Page>` has the layout of `struct page *`, and what is not `NULL` is fit to be
    // a `Page` by the safety requirements. The borrow of `pages` goes on in what is returned.
    unsafe { slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len()) }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_raw)]
mod tests {
    use super::*;

    use super::super::counting::{
        counting_pool,
        Ledger, //
    };

    use kernel::interrupt::local_interrupt_disable;

    #[test]
    fn raw_pages_come_back_with_interrupts_off() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(4, &ledger)?;
        // Overwritten, not freed.
        let mut pages = [ptr::dangling_mut::<bindings::page>(); 4];
        ledger.limit_bulk(2);
        ledger.refuse();

        pool.alloc_bulk_raw(&mut pages)?;
        assert!(pages.iter().all(|page| !page.is_null()));
        assert_eq!(ledger.live(), 6);
        let irq = local_interrupt_disable();
        // SAFETY: `pages` come from `alloc_bulk_raw()`, and nobody else knows them.
        unsafe { pool.free_bulk_raw(&mut pages) };
        drop(irq);

        assert!(pages.iter().all(|page| page.is_null()));
        assert_eq!(ledger.live(), 4);
        Ok(())
    }

    #[test]
    fn raw_pages_that_cannot_be_had_are_null() -> Result {
        let pool = counting_pool(1, &Ledger::new()?)?;
        let mut pages = [ptr::dangling_mut::<bindings::page>(); 2];

        assert_eq!(pool.alloc_bulk_raw(&mut pages), Err(EINVAL));

        assert!(pages.iter().all(|page| page.is_null()));
        // SAFETY: All of `pages` are `NULL`.
        unsafe { pool.free_bulk_raw(&mut pages) };
        Ok(())
    }
}
