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

/// The most pages that a CPU has room for.
pub(super) const MAX_PAGES: usize = 32;

/// The pages of one CPU, the first of which share a cache line.
///
/// # Invariants
///
/// Each address in `slots` is from [`Page::into_raw()`], and is nowhere else.
#[repr(align(64))]
pub(super) struct CpuPages {
    slots: Slots<bindings::page, MAX_PAGES>,
    /// Somebody found no page, and the work item is to fill the slots.
    pub(super) is_wanted: AtomicFlag,
}

// SAFETY: The pages are `Send`.
unsafe impl Send for CpuPages {}

// SAFETY: A page in a slot is accessed by nobody, and one that is taken out by the task alone that
// took it.
unsafe impl Sync for CpuPages {}

impl CpuPages {
    fn new() -> Self {
        // INVARIANT: All slots are empty.
        Self {
            slots: Slots::new(),
            is_wanted: AtomicFlag::new(false),
        }
    }

    /// Returns a page that was taken out of a slot.
    ///
    /// # Safety
    ///
    /// `raw` must just have been taken out of the slots.
    #[inline]
    unsafe fn page(raw: NonNull<bindings::page>) -> Page {
        // SAFETY: It is from `Page::into_raw()` by the type invariants, so all that it asks for was
        // so then, and is still, as the address was nowhere else.
        unsafe { Page::from_raw(raw) }
    }

    /// Puts a page into one of the first `end` slots, or gives it back if all of them are full.
    #[inline]
    pub(super) fn put(&self, page: Page, end: usize) -> Result<(), Page> {
        // INVARIANT: The address is in no slot, as there was a `Page`.
        self.slots.put(page.into_raw(), end).map_err(|raw| {
            // SAFETY: It was given away above, and did not get into a slot.
            unsafe { Page::from_raw(raw) }
        })
    }

    /// Puts pages into those of the first `end` slots that are empty, until all of them are full.
    #[inline]
    pub(super) fn put_bulk(&self, pages: &mut [Option<Page>], end: usize) {
        let mut rooms = self.slots.rooms(end);

        for entry in pages {
            let Some(page) = entry.take() else {
                continue;
            };
            // INVARIANT: As in `put()`.
            if let Err(raw) = rooms.put(page.into_raw()) {
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
        // SAFETY: It was in a slot, which is empty since, so nobody else has it.
        Some(unsafe { Self::page(raw) })
    }

    /// Takes all pages but `floor`, each as it is asked for.
    pub(super) fn drain(&self, floor: usize) -> impl Iterator<Item = Page> + '_ {
        self.slots.drain(floor).map(|raw| {
            // SAFETY: It was in a slot, which is empty since, so nobody else has it.
            unsafe { Self::page(raw) }
        })
    }

    /// Notes that somebody found no page, and tells whether nobody had.
    pub(super) fn want(&self) -> bool {
        // Looked at first, as many may come before the work item does.
        !self.is_wanted.load(Relaxed) && !self.is_wanted.xchg(true, Relaxed)
    }

    /// Returns how many pages there are, exactly if no other call runs.
    pub(super) fn count(&self) -> usize {
        self.slots.count()
    }
}

impl Drop for CpuPages {
    fn drop(&mut self) {
        self.drain(0).for_each(drop);
    }
}

/// Makes empty slots for all possible CPUs.
pub(super) fn new() -> Result<PerCpu<CpuPages>> {
    PerCpu::new(|_| Ok(CpuPages::new()))
}

/// Tells whether a CPU is online, or was a moment ago.
pub(super) fn is_online(cpu: CpuId) -> bool {
    // SAFETY: The number is less than `nr_cpu_ids`, by the invariants of `CpuId`.
    unsafe { bindings::cpu_online(cpu.as_u32()) }
}
