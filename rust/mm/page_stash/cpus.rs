// SPDX-License-Identifier: GPL-2.0

//! The pages of each CPU.

use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::atomic::{
        AtomicFlag,
        Relaxed, //
    }, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    mm::page::Page,
    percpu::PerCpu, //
};

use super::slots::Slots;

/// The maximum number of pages per CPU.
pub(super) const MAX_PAGES: usize = 32;

/// The pages of one CPU. The first slots share a cache line.
///
/// # Invariants
///
/// Each address in `slots` is from [`Page::into_raw()`], and the slot is its only owner.
#[repr(align(64))]
pub(super) struct CpuPages {
    slots: Slots<bindings::page, MAX_PAGES>,
    /// A caller found no page, and the work item has yet to fill the slots.
    pub(super) refill_requested: AtomicFlag,
}

// SAFETY: The pages are `Send`.
unsafe impl Send for CpuPages {}

// SAFETY: A page in a slot is not accessed. Only the task that took a page out of a slot accesses
// the page.
unsafe impl Sync for CpuPages {}

impl CpuPages {
    fn new() -> Self {
        // INVARIANT: All slots are empty.
        Self {
            slots: Slots::new(),
            refill_requested: AtomicFlag::new(false),
        }
    }

    /// Converts an address that was taken out of a slot to a page.
    ///
    /// # Safety
    ///
    /// The caller must just have taken `raw` out of the slots.
    #[inline]
    unsafe fn page(raw: NonNull<bindings::page>) -> Page {
        // SAFETY: `raw` is from `Page::into_raw()` by the type invariants, which met the
        // requirements at that time. They still hold, because the slot was the only owner.
        unsafe { Page::from_raw(raw) }
    }

    /// Puts a page into one of the first `end` slots, or returns the page if all of them are full.
    #[inline]
    pub(super) fn put(&self, page: Page, end: usize) -> Result<(), Page> {
        // INVARIANT: The address is in no slot, as the `Page` was its only owner.
        self.slots.put(page.into_raw(), end).map_err(|raw| {
            // SAFETY: The ownership was given up above, and the address is not in a slot.
            unsafe { Page::from_raw(raw) }
        })
    }

    /// Puts pages into the empty slots among the first `end` slots, until all of them are full.
    #[inline]
    pub(super) fn put_bulk(&self, pages: &mut [Option<Page>], end: usize) {
        let mut empty = self.slots.empty_slots(end);

        for entry in pages {
            let Some(page) = entry.take() else {
                continue;
            };
            // INVARIANT: As in `put()`.
            if let Err(raw) = empty.put(page.into_raw()) {
                // SAFETY: As in `put()`.
                *entry = Some(unsafe { Page::from_raw(raw) });
                break;
            }
        }
    }

    /// Takes a page out of one of the first `end` slots.
    #[inline]
    pub(super) fn get(&self, end: usize) -> Option<Page> {
        let raw = self.slots.get(end)?;
        // SAFETY: The slot was its only owner and is empty now.
        Some(unsafe { Self::page(raw) })
    }

    /// Returns an iterator that takes all pages above `floor`, one for each call of `next()`.
    pub(super) fn drain(&self, floor: usize) -> impl Iterator<Item = Page> + '_ {
        self.slots.drain(floor).map(|raw| {
            // SAFETY: The slot was its only owner and is empty now.
            unsafe { Self::page(raw) }
        })
    }

    /// Records that a caller found no page, and returns whether this is the first record.
    pub(super) fn request_refill(&self) -> bool {
        // Read the flag first: many callers may come before the work item runs.
        !self.refill_requested.load(Relaxed) && !self.refill_requested.xchg(true, Relaxed)
    }

    /// Returns the number of pages. Exact only if no other call runs.
    pub(super) fn count(&self) -> usize {
        self.slots.count()
    }
}

impl Drop for CpuPages {
    fn drop(&mut self) {
        self.drain(0).for_each(drop);
    }
}

/// Creates empty slots for all possible CPUs.
pub(super) fn new() -> Result<PerCpu<CpuPages>> {
    PerCpu::new(|_| Ok(CpuPages::new()))
}

/// Returns whether a CPU is online. The result may be stale on return.
pub(super) fn is_online(cpu: CpuId) -> bool {
    // SAFETY: The number is less than `nr_cpu_ids`, by the invariants of `CpuId`.
    unsafe { bindings::cpu_online(cpu.as_u32()) }
}
