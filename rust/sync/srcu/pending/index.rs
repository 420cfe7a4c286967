// SPDX-License-Identifier: GPL-2.0

//! The list of all counts.
//!
//! A value may be passed to SRCU in any context, so a search takes no lock: it is an RCU read-side
//! critical section. An addition takes no lock either. A removal needs the lock of [`State`].

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu::{
            self,
            synchronize_rcu, //
        },
        Arc, //
    }, //
};

use core::ptr;

use super::{
    Pending,
    State,
    STATE, //
};

/// An entry of the list.
pub(super) struct Entry {
    pending: Arc<Pending>,
    next: Atomic<*mut Entry>,
}

/// The newest entry.
///
/// Each entry is from `KBox::into_raw()`. Only [`unlink()`] changes links of entries in the list.
/// An entry is freed a grace period after its removal, and never added again.
static FIRST: Atomic<*mut Entry> = Atomic::new(ptr::null_mut());

impl Entry {
    /// Allocates an entry.
    pub(super) fn new(pending: Arc<Pending>, flags: Flags) -> Result<KBox<Self>> {
        let next = Atomic::new(ptr::null_mut());
        Ok(KBox::new(Self { pending, next }, flags)?)
    }
}

/// Returns the counts of the entry at `first` and of all older entries.
///
/// # Safety
///
/// `first` must be NULL or have been read from [`FIRST`] in the read-side critical section of the
/// guard.
unsafe fn older<'a>(
    _rcu: &'a rcu::Guard,
    first: *mut Entry,
) -> impl Iterator<Item = &'a Arc<Pending>> {
    let mut next = first;

    core::iter::from_fn(move || {
        // SAFETY: The entry was in the list in this read-side critical section, so it is not freed
        // before the end of `'a`. Its fields were written before the `Release` of its addition.
        let entry: &Entry = unsafe { next.as_ref() }?;
        next = entry.next.load(Acquire);
        Some(&entry.pending)
    })
}

/// Returns all counts.
pub(super) fn iter(rcu: &rcu::Guard) -> impl Iterator<Item = &Arc<Pending>> {
    // SAFETY: The entry is read in the critical section of `rcu`.
    unsafe { older(rcu, FIRST.load(Acquire)) }
}

/// Returns the count of `address`, if there is one.
pub(super) fn find(address: Option<usize>) -> Option<Arc<Pending>> {
    let rcu = rcu::read_lock();
    let known = iter(&rcu).find(|it| it.address == address);
    known.cloned()
}

/// Adds an entry, unless there is one for the address. Returns the count that is in the list.
pub(super) fn add(entry: KBox<Entry>) -> Arc<Pending> {
    let pending = entry.pending.clone();
    let raw = KBox::into_raw(entry);
    let rcu = rcu::read_lock();

    loop {
        let first = FIRST.load(Acquire);
        // SAFETY: The entry was read in the critical section of `rcu`.
        let known = unsafe { older(&rcu, first) }.find(|it| it.address == pending.address);
        if let Some(known) = known {
            // SAFETY: `raw` is from `into_raw()`, and was not added.
            drop(unsafe { KBox::from_raw(raw) });
            return known.clone();
        }
        // SAFETY: As above, so no other task has the entry.
        unsafe { &*raw }.next.store(first, Relaxed);
        // Release: a task that finds the entry sees its fields. If `first` is still the first
        // entry, no other entry was added since the search: no entry is added again.
        if FIRST.cmpxchg(first, raw, Release).is_ok() {
            return pending;
        }
    }
}

/// Removes the newest entry that `is_fit`, and marks its count as one that no module waits for.
///
/// `State` exists once, so its lock excludes other removals.
fn unlink(_locked: &mut State, is_fit: impl Fn(&Pending) -> bool) -> Option<Removed> {
    let mut link = &FIRST;

    loop {
        let raw = link.load(Acquire);
        // SAFETY: The entry is in the list, and no other task removes entries.
        let entry = unsafe { raw.as_ref() }?;
        if !is_fit(&entry.pending) {
            link = &entry.next;
            continue;
        }
        entry.pending.forget();
        // Release: passes on the `Release` of the addition of the next entry. It fails only if an
        // entry was added meanwhile.
        if link.cmpxchg(raw, entry.next.load(Acquire), Release).is_ok() {
            // INVARIANT: The entry was removed from the list, to which `add()` gave it.
            return Some(Removed(raw));
        }
        link = &FIRST;
    }
}

/// An entry that was removed.
///
/// # Invariants
///
/// The entry is not in the list. It is from `KBox::into_raw()`, and nothing else frees it.
struct Removed(*mut Entry);

impl Removed {
    /// Frees the entry.
    ///
    /// # Safety
    ///
    /// A grace period must have passed since the removal.
    unsafe fn free(self) {
        // SAFETY: By the type invariants. No reader has the entry any more.
        drop(unsafe { KBox::from_raw(self.0) });
    }
}

/// Removes all entries that `is_fit`. Their counts are marked as ones that no module waits for.
///
/// Context: Process context. May sleep.
pub(super) fn remove(is_fit: impl Fn(&Pending) -> bool) {
    loop {
        let mut removed = [const { None }; 16];
        {
            let mut state = STATE.lock();
            for slot in &mut removed {
                *slot = unlink(&mut state, &is_fit);
            }
        }
        if removed[0].is_none() {
            return;
        }
        synchronize_rcu();
        for entry in removed.into_iter().flatten() {
            // SAFETY: A grace period has passed.
            unsafe { entry.free() };
        }
    }
}
