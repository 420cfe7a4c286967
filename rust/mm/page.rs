// SPDX-License-Identifier: GPL-2.0

//! Owned pages.
//!
//! A [`Page`] is page-aligned memory for devices and for the block layer. It extends `kernel::page`
//! with orders, bulk allocation and access to the bytes. Use `KBox` or `KVec` for memory that only
//! the CPU accesses.
//!
//! The bytes of a page are those of its last user, so a page can be written but not read. A
//! [`FilledPage`] is a page whose bytes were written, and can be read.
//!
//! High memory is not supported.
//!
//! C header: [`include/linux/gfp.h`](srctree/include/linux/gfp.h)

use kernel::{
    cpu::CpuId,
    page::PAGE_SIZE,
    prelude::*, //
};

#[cfg(kscale_kunit)]
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ops::Deref,
    ptr::NonNull,
    slice, //
};

use crate::{
    bindings,
    mm::gfp::Gfp, //
};

mod compound;

pub(crate) use self::compound::is_compound;
pub use self::compound::CompoundPage;

#[cfg(CONFIG_HIGHMEM)]
compile_error!("pages in high memory have no address");

/// A naturally aligned block of `1 << ORDER` pages, freed on drop.
///
/// Has the layout of a non-null `struct page *`. `Option<Page>` has this layout with [`None`] as
/// `NULL`.
///
/// # Invariants
///
/// `page` is the first page of a block that the page allocator returned for order `ORDER`, and that
/// was not freed since. A block of more than a page is a compound page, so a device that takes a
/// reference to one of its pages refers to the whole block. `self` owns the block's only reference,
/// and has exclusive access to the block's bytes.
#[repr(transparent)]
pub struct Page<const ORDER: u32 = 0> {
    page: NonNull<bindings::page>,
}

// SAFETY: `__free_pages()` may run in any task and on any CPU.
unsafe impl<const ORDER: u32> Send for Page<ORDER> {}

// SAFETY: The `&self` methods only read the bytes, which are not written while `self` is shared.
unsafe impl<const ORDER: u32> Sync for Page<ORDER> {}

/// The failpoint of page allocation: single pages, bulk and blocks.
#[cfg(kscale_kunit)]
pub static ALLOC: crate::testing::failpoint::Failpoint =
    crate::testing::failpoint::Failpoint::new();

impl<const ORDER: u32> Page<ORDER> {
    /// The size of the block in bytes.
    pub const SIZE: usize = {
        assert!(
            ORDER <= bindings::MAX_PAGE_ORDER,
            "no block of pages is that large"
        );
        PAGE_SIZE << ORDER
    };

    /// Allocates a block of pages.
    ///
    /// Without [`Gfp::ZERO`], the bytes are those of the last user. Blocks of more than a few pages
    /// are hard to allocate: callers need a fallback to smaller blocks.
    ///
    /// Returns [`ENOMEM`].
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    #[inline]
    pub fn alloc(gfp: Gfp) -> Result<Self> {
        const { assert!(Self::SIZE > 0) };

        #[cfg(kscale_kunit)]
        ALLOC.check()?;
        let gfp = if ORDER == 0 { gfp } else { gfp | Gfp::COMP };

        // SAFETY: `alloc_pages()` takes any flags that `Gfp` can hold, and `ORDER` is at most
        // `MAX_PAGE_ORDER` by the assertion on `SIZE`.
        let page = unsafe { bindings::alloc_pages(gfp.as_raw(), ORDER) };

        // INVARIANT: `alloc_pages()` returned the page just now, and its only reference belongs to
        // the caller. With an order above 0 it is a compound page because of `__GFP_COMP`.
        Ok(Self {
            page: NonNull::new(page).ok_or(ENOMEM)?,
        })
    }

    /// Returns the bytes of the block for writing. Their values are undefined.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn as_uninit_slice_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY:
        // - The block is `SIZE` bytes long. Without high memory, it is mapped while it is
        //   allocated, which is as long as `self` lives by the type invariants. `MaybeUninit` does
        //   not require values.
        // - `self` has exclusive access to the bytes by the type invariants, and is borrowed
        //   mutably.
        unsafe { slice::from_raw_parts_mut(self.address().cast(), Self::SIZE) }
    }

    /// Sets each byte of the block to `byte`, and returns the block as a [`FilledPage`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn fill(&mut self, byte: u8) -> &mut FilledPage<ORDER> {
        // SAFETY: As in `as_uninit_slice_mut()`.
        unsafe { self.address().write_bytes(byte, Self::SIZE) };
        let this: *mut Self = self;
        // SAFETY: `FilledPage` has the layout of `Page`. A value that replaces the `FilledPage` is
        // a page, too. `self` is borrowed for as long as the result is.
        // INVARIANT: All bytes were written just now.
        unsafe { &mut *this.cast::<FilledPage<ORDER>>() }
    }

    /// Sets the first `len` bytes of the block to 0 and returns them, or returns [`None`] if the
    /// block is smaller.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn zeroed_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        let bytes = self.as_uninit_slice_mut().get_mut(..len)?;

        // SAFETY: The bytes are valid for writes of their length, and have values after that. They
        // are borrowed for as long as the result is.
        Some(unsafe {
            let start = bytes.as_mut_ptr().cast::<u8>();
            start.write_bytes(0, len);
            slice::from_raw_parts_mut(start, len)
        })
    }

    /// Returns the block as a [`FilledPage`].
    ///
    /// # Safety
    ///
    /// All bytes must have been written since the block was allocated.
    #[cfg(kscale_kunit)]
    pub(crate) unsafe fn assume_filled(&self) -> &FilledPage<ORDER> {
        // SAFETY: `FilledPage` has the layout of `Page`.
        // INVARIANT: By the safety requirements.
        unsafe { &*core::ptr::from_ref(self).cast::<FilledPage<ORDER>>() }
    }

    /// Returns the address of the block.
    fn address(&self) -> *mut u8 {
        // SAFETY: `page` is a page by the type invariants. All memory is low memory, so
        // `page_address()` in `include/linux/mm.h` only computes the address.
        unsafe { bindings::page_address(self.as_ptr()) }.cast()
    }

    /// Returns the first page, still owned by `self`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    /// Returns the reference count of the block.
    #[cfg(kscale_kunit)]
    pub(crate) fn references(&self) -> &Atomic<i32> {
        // SAFETY: The block lives as long as `self`, by the type invariants, and all accesses to
        // its count are atomic.
        unsafe { Atomic::from_ptr(&raw mut (*self.as_ptr())._refcount.counter) }
    }

    /// Transfers ownership of the block to C.
    ///
    /// The block leaks unless [`Page::from_raw`] takes it or C frees it.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<bindings::page> {
        ManuallyDrop::new(self).page
    }

    /// Takes ownership of a block from C.
    ///
    /// # Safety
    ///
    /// - `page` must be the first page of a block of order `ORDER` from the page allocator, and a
    ///   compound page if `ORDER` is not 0.
    /// - The caller must own the block's only reference, and gives it up.
    /// - Nothing else may access the block's bytes from now on.
    #[inline]
    pub(crate) unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By the safety requirements.
        Self { page }
    }
}

impl Page {
    /// Allocates a page of the memory node of `cpu`, or of a near node.
    ///
    /// Otherwise behaves as [`alloc()`](Self::alloc).
    ///
    /// Context: As [`alloc()`](Self::alloc).
    #[inline]
    pub(crate) fn alloc_near(gfp: Gfp, cpu: CpuId) -> Result<Self> {
        #[cfg(kscale_kunit)]
        ALLOC.check()?;
        // SAFETY: The number is less than `nr_cpu_ids`, by the invariants of `CpuId`.
        if !unsafe { bindings::cpu_possible(cpu.as_u32()) } {
            return Self::alloc(gfp);
        }
        // SAFETY: `alloc_pages_node()` takes any flags that `Gfp` can hold, and every node that
        // `cpu_to_mem()` returns for a possible CPU.
        let page = unsafe { bindings::alloc_page_near(gfp.as_raw(), cpu.as_u32()) };

        // INVARIANT: As in `alloc()`.
        Ok(Self {
            page: NonNull::new(page).ok_or(ENOMEM)?,
        })
    }
}

/// A [`Page`] whose bytes were all written, and can be read.
///
/// # Invariants
///
/// All bytes of the page were written since it was allocated.
#[repr(transparent)]
pub struct FilledPage<const ORDER: u32 = 0>(Page<ORDER>);

impl<const ORDER: u32> FilledPage<ORDER> {
    /// Allocates a block of pages whose bytes are 0. Otherwise behaves as [`Page::alloc()`].
    ///
    /// Context: As [`Page::alloc()`].
    #[inline]
    pub fn zeroed(gfp: Gfp) -> Result<Self> {
        // INVARIANT: With `Gfp::ZERO`, the page allocator clears a page before it returns the page
        // (`post_alloc_hook()` in `mm/page_alloc.c`).
        Ok(Self(Page::alloc(gfp | Gfp::ZERO)?))
    }

    /// Returns the bytes of the block.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY:
        // - The block is `SIZE` bytes long and mapped for as long as `self` lives, see
        //   `Page::as_uninit_slice_mut()`.
        // - Its bytes have values, by the type invariants.
        // - The bytes are not written while `self` is shared, by the invariants of `Page`.
        unsafe { slice::from_raw_parts(self.0.address(), Page::<ORDER>::SIZE) }
    }

    /// Returns the bytes of the block for writing.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY:
        // - As in `as_slice()`.
        // - The borrow of `self` has exclusive access to the bytes, by the invariants of `Page`.
        unsafe { slice::from_raw_parts_mut(self.0.address(), Page::<ORDER>::SIZE) }
    }

    /// Returns the block for C code that writes all of its bytes.
    ///
    /// Not public: a caller could replace the block by a page that is not filled.
    #[inline]
    pub(crate) fn as_page_mut(&mut self) -> &mut Page<ORDER> {
        &mut self.0
    }
}

impl<const ORDER: u32> Deref for FilledPage<ORDER> {
    type Target = Page<ORDER>;

    #[inline]
    fn deref(&self) -> &Page<ORDER> {
        &self.0
    }
}

impl<const ORDER: u32> From<FilledPage<ORDER>> for Page<ORDER> {
    #[inline]
    fn from(page: FilledPage<ORDER>) -> Self {
        page.0
    }
}

impl<const ORDER: u32> Drop for Page<ORDER> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY:
        // - `page` came from the page allocator for order `ORDER`, by the type invariants.
        // - `self` owns the reference, by the type invariants, and is not used again.
        unsafe { bindings::__free_pages(self.as_ptr(), ORDER) };
    }
}

/// Allocates pages into the empty entries of `slots`, starting with the first entry.
///
/// Returns the number `n` of filled entries: the first `n` entries of `slots` hold a page. If all
/// entries do, `n` is `slots.len()`.
///
/// Context: Any context except NMI. May sleep if `gfp` allows it. A page costs far less than by
/// [`Page::alloc`] while memory is plenty, and the same while it is short. C:
/// `alloc_pages_bulk_noprof()` in `mm/page_alloc.c`.
pub fn alloc_bulk(gfp: Gfp, slots: &mut [Option<Page>]) -> usize {
    #[cfg(kscale_kunit)]
    if ALLOC.check().is_err() {
        return slots.iter().take_while(|slot| slot.is_some()).count();
    }
    // C returns after a single page if memory is low or its lists are contended. Only a call that
    // adds no page means that the allocator has none left.
    let mut populated = 0;
    loop {
        // SAFETY:
        // - `slots` is valid for reads and writes of `slots.len()` pointers, as `Option<Page>` has
        //   the layout of `struct page *`.
        // - `alloc_pages_bulk_noprof()` in `mm/page_alloc.c` writes only to entries that are `NULL`
        //   (`None`), so it does not overwrite a page.
        // INVARIANT: Each pointer that C writes is a page of order 0, and its only reference
        // belongs to the caller.
        let now = unsafe {
            bindings::alloc_pages_bulk(gfp.as_raw(), slots.len(), slots.as_mut_ptr().cast())
        };

        if now <= populated || now >= slots.len() {
            return now;
        }
        populated = now;
    }
}

/// Returns the number of pages that the page allocator manages, both free and in use.
///
/// The number changes only with memory hotplug.
///
/// Context: Any context. Never sleeps. C: `totalram_pages()` in `include/linux/mm.h`.
#[inline]
pub fn totalram_pages() -> usize {
    // SAFETY: The function reads an atomic variable.
    unsafe { bindings::totalram_pages() }
}

/// Calls `use_memory`, which allocates and frees `bytes`, for an eighth of the memory in total.
/// Returns whether the memory is free again.
///
/// Less than half of it may stay in caches, such as the quarantine of KASAN.
#[cfg(kscale_kunit)]
pub(crate) fn frees_memory(bytes: usize, use_memory: impl Fn() -> Result) -> Result<bool> {
    let free_pages = || {
        let mut info = core::mem::MaybeUninit::<bindings::sysinfo>::zeroed();
        // SAFETY: The function writes to `info`.
        unsafe { bindings::si_meminfo(info.as_mut_ptr()) };
        // SAFETY: All bytes are initialised, and the struct has integers only.
        unsafe { (*info.as_ptr()).freeram }
    };
    let before = free_pages();

    for _ in 0..=totalram_pages() / 8 * PAGE_SIZE / bytes {
        use_memory()?;
    }
    Ok(before < free_pages() + totalram_pages() / 16)
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_page)]
mod tests {
    use super::*;

    /// The number of pages in the largest bio.
    const MANY: usize = 256;

    fn empty_slots(len: usize) -> Result<KVec<Option<Page>>> {
        let mut slots = KVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(slots)
    }

    #[test]
    fn totalram_pages_is_plausible() {
        let pages = totalram_pages();

        assert!(pages > 1 << bindings::MAX_PAGE_ORDER);
        assert!(pages < 1 << 52);
    }

    #[test]
    fn page_has_the_size_of_its_order() -> Result {
        assert_eq!(
            FilledPage::<0>::zeroed(Gfp::KERNEL)?.as_slice().len(),
            PAGE_SIZE
        );
        assert_eq!(
            FilledPage::<1>::zeroed(Gfp::KERNEL)?.as_slice().len(),
            2 * PAGE_SIZE
        );
        assert_eq!(
            FilledPage::<5>::zeroed(Gfp::KERNEL)?.as_slice().len(),
            32 * PAGE_SIZE
        );
        Ok(())
    }

    #[test]
    fn zero_clears_every_byte() -> Result {
        // Write to the page that the allocator is likely to return next.
        Page::<2>::alloc(Gfp::KERNEL)?.fill(0xa5);

        let page = FilledPage::<2>::zeroed(Gfp::KERNEL)?;

        assert!(page.as_slice().iter().all(|&byte| byte == 0));
        Ok(())
    }

    #[test]
    fn written_bytes_are_read_back() -> Result {
        let mut page = Page::<1>::alloc(Gfp::KERNEL)?;

        let page = page.fill(0x5a);
        page.as_mut_slice()[PAGE_SIZE] = 1;

        assert!(page.as_slice()[..PAGE_SIZE]
            .iter()
            .all(|&byte| byte == 0x5a));
        assert_eq!(page.as_slice()[PAGE_SIZE], 1);
        assert_eq!(page.as_slice()[2 * PAGE_SIZE - 1], 0x5a);
        Ok(())
    }

    #[test]
    fn zeroing_a_part_keeps_the_rest() -> Result {
        let mut page = Page::<0>::alloc(Gfp::KERNEL)?;
        page.fill(0x5a);

        assert!(page.zeroed_mut(PAGE_SIZE + 1).is_none());
        let start = page.zeroed_mut(100).ok_or(EINVAL)?;
        assert!(*start == [0; 100]);
        start[99] = 1;

        // SAFETY: The page was filled above.
        let bytes = unsafe { page.assume_filled() }.as_slice();
        assert_eq!((bytes[98], bytes[99], bytes[100]), (0, 1, 0x5a));
        Ok(())
    }

    #[test]
    fn bytes_can_be_written_one_by_one() -> Result {
        let mut page = Page::<0>::alloc(Gfp::KERNEL)?;

        for (i, byte) in page.as_uninit_slice_mut().iter_mut().enumerate() {
            byte.write((i % 251) as u8);
        }

        // SAFETY: All bytes were written above.
        let bytes = unsafe { page.assume_filled() }.as_slice();
        assert!(bytes
            .iter()
            .enumerate()
            .all(|(i, &byte)| byte == (i % 251) as u8));
        Ok(())
    }

    #[test]
    fn page_round_trips_through_c() -> Result {
        let mut page = Page::<0>::alloc(Gfp::KERNEL)?;
        page.fill(0x17);

        let raw = page.into_raw();
        // SAFETY: `raw` comes from `into_raw()` above and was not used since.
        let page = unsafe { Page::<0>::from_raw(raw) };

        // SAFETY: The page was filled above.
        let bytes = unsafe { page.assume_filled() }.as_slice();
        assert!(bytes.iter().all(|&byte| byte == 0x17));
        Ok(())
    }

    #[test]
    fn none_page_is_a_null_pointer() {
        let slot: Option<Page> = None;

        // SAFETY: `Option<Page>` has the layout of a pointer.
        let raw = unsafe { core::mem::transmute::<Option<Page>, *mut bindings::page>(slot) };

        assert!(raw.is_null());
    }

    #[test]
    fn bulk_fills_every_slot_with_its_own_page() -> Result {
        for len in [1, 2, 31, MANY] {
            let mut slots = empty_slots(len)?;

            assert_eq!(alloc_bulk(Gfp::KERNEL, &mut slots), len);

            for (index, page) in slots.iter_mut().flatten().enumerate() {
                page.fill(index as u8);
            }
            for (index, slot) in slots.iter().enumerate() {
                let page = slot.as_ref().ok_or(ENOMEM)?;
                // SAFETY: The page was filled above.
                let bytes = unsafe { page.assume_filled() }.as_slice();
                assert!(bytes.iter().all(|&byte| byte == index as u8));
            }
        }
        Ok(())
    }

    #[test]
    fn bulk_keeps_filled_slots() -> Result {
        let mut slots = empty_slots(8)?;
        for index in [0, 3, 7] {
            let mut page = Page::alloc(Gfp::KERNEL)?;
            page.fill(0xee);
            slots[index] = Some(page);
        }

        assert_eq!(alloc_bulk(Gfp::KERNEL | Gfp::ZERO, &mut slots), 8);

        for (index, page) in slots.iter().flatten().enumerate() {
            let expected = if [0, 3, 7].contains(&index) { 0xee } else { 0 };
            // SAFETY: The page was filled above, or allocated with `Gfp::ZERO`.
            let bytes = unsafe { page.assume_filled() }.as_slice();
            assert!(bytes.iter().all(|&byte| byte == expected));
        }
        Ok(())
    }

    #[test]
    fn empty_bulk_allocates_no_pages() {
        assert_eq!(alloc_bulk(Gfp::KERNEL, &mut []), 0);
    }

    #[test]
    fn drop_puts_the_only_reference() -> Result {
        let pages = Page::<2>::alloc(Gfp::KERNEL)?;
        assert_eq!(pages.references().load(Relaxed), 1);
        pages.references().add(1, Relaxed);

        let raw = pages.as_ptr();
        drop(pages);

        // SAFETY: The reference that was added above is the only one left.
        let pages = unsafe { Page::<2>::from_raw(NonNull::new(raw).ok_or(EINVAL)?) };
        assert_eq!(pages.references().load(Relaxed), 1);
        Ok(())
    }

    /// Returns the order of a compound page, or [`None`] if `page` is a single page.
    fn compound_order(page: *mut bindings::page) -> Option<u32> {
        // SAFETY: The page is allocated.
        let is_compound = unsafe { bindings::page_head(page) };
        // SAFETY: As above.
        is_compound.then(|| unsafe { bindings::compound_order(page) })
    }

    #[test]
    fn pages_of_higher_order_are_compound_pages() -> Result {
        let page = Page::<0>::alloc(Gfp::KERNEL)?;
        assert_eq!(compound_order(page.as_ptr()), None);
        let pair = Page::<1>::alloc(Gfp::KERNEL)?;
        assert_eq!(compound_order(pair.as_ptr()), Some(1));
        let block = Page::<3>::alloc(Gfp::KERNEL)?;
        assert_eq!(compound_order(block.as_ptr()), Some(3));
        Ok(())
    }

    /// Flags of an allocation that fails early.
    const EASILY: Gfp = Gfp::KERNEL.union(Gfp::NORETRY).union(Gfp::NOWARN);

    #[test]
    fn compound_pages_are_freed_whole() -> Result {
        let order = core::num::NonZeroU32::new(8).ok_or(EINVAL)?;

        assert!(frees_memory(PAGE_SIZE << 8, || {
            drop(Page::<8>::alloc(EASILY)?);
            Ok(())
        })?);
        assert!(frees_memory(PAGE_SIZE << 8, || {
            drop(CompoundPage::alloc(EASILY, order)?);
            Ok(())
        })?);
        Ok(())
    }

    #[test]
    fn alloc_near_works_for_any_cpu() -> Result {
        for cpu in (0..kernel::cpu::nr_cpu_ids()).filter_map(CpuId::from_u32) {
            let mut page = Page::alloc_near(Gfp::KERNEL | Gfp::ZERO, cpu)?;
            assert_eq!(page.references().load(Relaxed), 1);
            assert_eq!(compound_order(page.as_ptr()), None);
            // SAFETY: The page was allocated with `Gfp::ZERO`.
            let is_zeroed = unsafe { page.assume_filled() }.as_slice();
            assert!(is_zeroed.iter().all(|byte| *byte == 0));
            page.fill(1);
        }
        Ok(())
    }

    #[test]
    fn failpoint_fails_the_allocation() -> Result {
        let cpu = CpuId::current();
        let order = core::num::NonZeroU32::MIN;

        ALLOC.fail(|| {
            assert_eq!(Page::<0>::alloc(Gfp::KERNEL).err(), Some(ENOMEM));
            assert_eq!(Page::alloc_near(Gfp::KERNEL, cpu).err(), Some(ENOMEM));
            assert_eq!(CompoundPage::alloc(Gfp::KERNEL, order).err(), Some(ENOMEM));
            assert_eq!(alloc_bulk(Gfp::KERNEL, &mut [None]), 0);
        });
        assert!(Page::<0>::alloc(Gfp::KERNEL).is_ok());
        Ok(())
    }
}
