// SPDX-License-Identifier: GPL-2.0

//! Bulk allocation of pages of a memory pool as `struct page *`.

use kernel::prelude::*;

use core::{
    mem::MaybeUninit,
    slice, //
};

use super::{
    Mempool,
    Source, //
};

use crate::{
    bindings,
    mm::page::Page, //
};

impl<S: Source<Memory = Page>> Mempool<S> {
    /// Allocates `pages.len()` pages and overwrites `pages` with them.
    ///
    /// Each page has a single reference, which the caller owns. The caller must free the pages by
    /// [`Mempool::free_bulk_raw`].
    ///
    /// Otherwise behaves as [`alloc_bulk`](Self::alloc_bulk). An error leaves `pages` unchanged.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn alloc_bulk_raw(&self, pages: &mut [*mut bindings::page]) -> Result {
        self.fill(as_slots(pages))
    }

    /// Returns pages to the pool or frees them. The pointers in `pages` are invalid afterwards.
    ///
    /// # Safety
    ///
    /// - `pages` must be at most `u32::MAX` pages of order 0 from the page allocator.
    /// - The caller must own the only reference to each page, and gives it up.
    /// - The bytes of the pages must not be accessed afterwards.
    ///
    /// Context: Any context except NMI. Never sleeps.
    pub(crate) unsafe fn free_bulk_raw(&self, pages: &mut [*mut bindings::page]) {
        // SAFETY: The pages are equivalent to those of the pool, by the safety requirements.
        unsafe { self.empty(as_slots(pages)) };
    }
}

/// Views page pointers of C as slots for pages.
fn as_slots(pages: &mut [*mut bindings::page]) -> &mut [MaybeUninit<Page>] {
    // SAFETY: `Page` has the layout of `struct page *`. The return value continues the borrow of
    // `pages`.
    unsafe { slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len()) }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_raw)]
mod tests {
    use super::*;

    use super::super::test_allocator::{
        counting_pool,
        Ledger, //
    };

    use crate::percpu::testing::with_interrupts_off_for_locks;

    use core::ptr;

    #[test]
    fn raw_pages_are_freed_with_interrupts_off() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(4, &ledger)?;
        // The pool overwrites these pointers without freeing them.
        let mut pages = [ptr::dangling_mut::<bindings::page>(); 4];
        ledger.limit_bulk(2);
        ledger.refuse();

        pool.alloc_bulk_raw(&mut pages)?;
        assert!(pages.iter().all(|page| !page.is_null()));
        assert_eq!(ledger.live(), 6);
        // SAFETY: `pages` come from `alloc_bulk_raw()`, and there are no other users.
        with_interrupts_off_for_locks(|| unsafe { pool.free_bulk_raw(&mut pages) });

        assert_eq!(ledger.live(), 4);
        Ok(())
    }

    #[test]
    fn oversized_bulk_changes_no_slots() -> Result {
        let pool = counting_pool(1, &Ledger::new()?)?;
        let mut pages = [ptr::null_mut(); 2];

        assert_eq!(pool.alloc_bulk_raw(&mut pages), Err(EINVAL));

        assert!(pages.iter().all(|page| page.is_null()));
        Ok(())
    }
}
