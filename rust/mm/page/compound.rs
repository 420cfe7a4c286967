// SPDX-License-Identifier: GPL-2.0

//! Compound pages with an order that is set at run time.

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

use core::{
    mem::ManuallyDrop,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    mm::gfp::Gfp, //
};

/// A compound page: two or more pages, naturally aligned, freed on drop.
///
/// The counterpart of [`Page<ORDER>`](super::Page) with an order that is set at run time.
///
/// # Invariants
///
/// `page` is the first page of a compound page from the page allocator that was not freed since.
/// `self` owns its only reference, and has exclusive access to its bytes.
pub struct CompoundPage {
    page: NonNull<bindings::page>,
}

// SAFETY: `__free_pages()` may run in any task and on any CPU.
unsafe impl Send for CompoundPage {}

// SAFETY: The `&self` methods only read data that does not change while the compound page is
// allocated.
unsafe impl Sync for CompoundPage {}

impl CompoundPage {
    /// The order of the largest compound pages.
    pub const MAX_ORDER: u32 = bindings::MAX_PAGE_ORDER;

    /// Allocates a compound page of `1 << order` pages.
    ///
    /// Without [`Gfp::ZERO`], the bytes are those of the last user.
    ///
    /// Returns [`EINVAL`] if `order` is more than [`MAX_ORDER`](Self::MAX_ORDER), and [`ENOMEM`].
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    #[inline]
    pub fn alloc(gfp: Gfp, order: NonZeroU32) -> Result<Self> {
        if order.get() > Self::MAX_ORDER {
            return Err(EINVAL);
        }
        #[cfg(kscale_kunit)]
        super::ALLOC.check()?;
        let gfp = gfp | Gfp::COMP;
        // SAFETY: `alloc_pages()` takes any flags that `Gfp` can hold, and the order was checked.
        let page = unsafe { bindings::alloc_pages(gfp.as_raw(), order.get()) };

        // INVARIANT: `alloc_pages()` returned the page just now, and its only reference belongs to
        // the caller. It is a compound page because of `__GFP_COMP` and an order above 0.
        Ok(Self {
            page: NonNull::new(page).ok_or(ENOMEM)?,
        })
    }

    /// Returns the order.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn order(&self) -> u32 {
        // SAFETY: `page` is the first page of a compound page, by the type invariants.
        unsafe { bindings::compound_order(self.page.as_ptr()) }
    }

    /// Returns the number of pages.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn pages(&self) -> usize {
        1 << self.order()
    }

    /// Returns the size in bytes.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn size(&self) -> usize {
        PAGE_SIZE << self.order()
    }

    /// Transfers ownership of the compound page to C.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<bindings::page> {
        ManuallyDrop::new(self).page
    }

    /// Takes ownership of a compound page from C.
    ///
    /// # Safety
    ///
    /// - `page` must come from [`CompoundPage::into_raw`].
    /// - The caller must own its only reference, and gives it up.
    /// - Nothing else may access its bytes from now on.
    #[inline]
    pub(crate) unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By the safety requirements.
        Self { page }
    }
}

impl Drop for CompoundPage {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The compound page came from the page allocator for this order, and `self` owns
        // its only reference, by the type invariants.
        unsafe { bindings::__free_pages(self.page.as_ptr(), self.order()) };
    }
}

/// Returns whether `page` is the first page of a [`CompoundPage`], rather than a single page.
///
/// # Safety
///
/// `page` must be from [`CompoundPage::into_raw`], or from
/// [`Page::into_raw`](super::Page::into_raw) of order 0, and must not be freed.
#[inline]
pub(crate) unsafe fn is_compound(page: *mut bindings::page) -> bool {
    // SAFETY: By the safety requirements.
    unsafe { bindings::page_head(page) }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_page_compound)]
mod tests {
    use super::*;

    use super::super::Page;

    #[test]
    fn compound_page_has_the_size_of_its_order() -> Result {
        for order in 1..=5 {
            let compound = CompoundPage::alloc(Gfp::KERNEL, NonZeroU32::new(order).ok_or(EINVAL)?)?;
            assert_eq!(compound.order(), order);
            assert_eq!(compound.pages(), 1 << order);
            assert_eq!(compound.size(), PAGE_SIZE << order);
        }
        Ok(())
    }

    #[test]
    fn invalid_orders_are_rejected() -> Result {
        for order in [CompoundPage::MAX_ORDER + 1, u32::MAX] {
            let order = NonZeroU32::new(order).ok_or(EINVAL)?;
            assert!(CompoundPage::alloc(Gfp::KERNEL, order).is_err_and(|error| error == EINVAL));
        }
        Ok(())
    }

    #[test]
    fn is_compound_detects_compound_pages() -> Result {
        let compound = CompoundPage::alloc(Gfp::KERNEL, NonZeroU32::MIN)?.into_raw();
        let page = Page::<0>::alloc(Gfp::KERNEL)?;

        // SAFETY: Both are allocated, and come from `CompoundPage::into_raw()` and from a `Page`.
        unsafe {
            assert!(is_compound(compound.as_ptr()));
            assert!(!is_compound(page.as_ptr()));
            drop(CompoundPage::from_raw(compound));
        }
        Ok(())
    }

    #[test]
    fn largest_order_can_be_allocated() -> Result {
        const MOST: NonZeroU32 = NonZeroU32::new(CompoundPage::MAX_ORDER).unwrap();
        let gfp = Gfp::KERNEL | Gfp::NOWARN | Gfp::NORETRY;

        // Memory may be fragmented.
        if let Some(compound) = CompoundPage::alloc(gfp, MOST)
            .map(Some)
            .or_else(|error| (error == ENOMEM).then_some(None).ok_or(error))?
        {
            assert_eq!(compound.order(), CompoundPage::MAX_ORDER);
        }
        Ok(())
    }

    #[test]
    fn compound_page_round_trips_through_c() -> Result {
        let raw = CompoundPage::alloc(Gfp::KERNEL, NonZeroU32::MIN)?.into_raw();

        // SAFETY: `raw` is from `into_raw()`, and was not used since.
        let compound = unsafe { CompoundPage::from_raw(raw) };
        assert_eq!((compound.order(), compound.pages()), (1, 2));
        Ok(())
    }
}
