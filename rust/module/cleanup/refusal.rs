// SPDX-License-Identifier: GPL-2.0

//! The end of registrations that are [refused](super::is_closed).
//!
//! The data of such a registration is dropped at once, as that of any other registration that fails: a work item
//! may try again all the time, while the notifier waits for something else.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::bindings;

use super::{
    is_closed,
    records::Stage,
    RecordId,
    RECORDS, //
};

/// Returns the data of a registration that the caller is about to make. Drops it if the registration would be
/// refused, unless the current task is in the destructor of such data.
///
/// Without this, C would call the callbacks of each registration before it is refused.
///
/// Fails with [`ENODEV`].
pub(crate) fn unless_closed<V>(module: *mut bindings::module, value: V) -> Result<V> {
    if is_closed(module) {
        if let Some(_refusal) = Refusal::new() {
            drop(value);
            return Err(ENODEV);
        }
    }
    Ok(value)
}

/// Calls the functions of an active record whose registration is refused.
///
/// Inside of `free`, the notifier calls it for another record: the destructor of the data may try the same
/// again, without an end.
///
/// # Safety
///
/// It must be sound to call `free` of the record right after `stop`.
pub(crate) unsafe fn refuse(id: RecordId) {
    let record = RECORDS.lock().put(id, Stage::Active, Stage::Refused);
    let Some(record) = record else {
        return;
    };

    // SAFETY: The record was active, so `stop` is called once, and before `free`.
    unsafe { (record.stop)(record.data) };
    RECORDS.lock().put(id, Stage::Refused, Stage::Stopped);
    // SAFETY: By the safety requirements, and `stop` has returned.
    unsafe { free_refused(id) };
}

/// Calls `release` and `free` of a stopped record whose registration is refused, as [`refuse()`] does.
///
/// # Safety
///
/// It must be sound to call both now.
pub(crate) unsafe fn free_refused(id: RecordId) {
    let Some(_refusal) = Refusal::new() else {
        return;
    };
    let record = RECORDS.lock().put(id, Stage::Stopped, Stage::Refused);
    let Some(record) = record else {
        return;
    };

    // SAFETY: By the safety requirements. The stage has changed, so it is called once.
    unsafe { (record.release)(record.data) };
    // SAFETY: As above.
    unsafe { (record.free)(record.data) };
    RECORDS.lock().remove(id, Stage::Refused);
}

/// The addresses of the tasks that drop the data of a refused registration, or 0.
static TASKS: [Atomic<usize>; 64] = [const { Atomic::new(0) }; 64];

/// Returns the address of the current task.
fn current_task() -> usize {
    // SAFETY: There are no requirements.
    unsafe { bindings::get_current() }.addr()
}

/// Returns whether the current task drops the data of a refused registration.
///
/// Context: Any context. Never sleeps.
pub(crate) fn is_in_refusal() -> bool {
    let task = current_task();
    TASKS.iter().any(|entry| entry.load(Relaxed) == task)
}

/// The current task drops the data of a refused registration.
struct Refusal {
    entry: &'static Atomic<usize>,
}

impl Refusal {
    /// Returns [`None`] if the task does so already, or if 64 tasks do.
    fn new() -> Option<Self> {
        let task = current_task();
        let is_free = |entry: &&Atomic<usize>| entry.cmpxchg(0, task, Relaxed).is_ok();
        if is_in_refusal() {
            return None;
        }
        let entry = TASKS.iter().find(is_free)?;
        Some(Self { entry })
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        self.entry.store(0, Relaxed);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_module_refusal)]
mod tests {
    use super::{
        super::{
            add,
            nothing,
            records::Record,
            testing::empty_module,
            AddCounter,
            Notifier, //
        },
        *, //
    };

    use kernel::ffi::c_void;

    use core::ptr::NonNull;

    static FREED: Atomic<u32> = Atomic::new(0);

    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn count_free(_: NonNull<c_void>) {
        FREED.add(1, Relaxed);
    }

    /// As the destructor of data that makes another registration.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn refuse_another(_: NonNull<c_void>) {
        if let Ok(inner) = add_record(count_free) {
            // SAFETY: The functions have no requirements.
            unsafe { refuse(inner) };
            FREED.add(if is_in_refusal() { 10 } else { 0 }, Relaxed);
        }
    }

    fn add_record(free: unsafe fn(NonNull<c_void>)) -> Result<RecordId> {
        let record = Record {
            stop: nothing,
            release: nothing,
            free,
            waits: false,
            data: NonNull::dangling(),
        };
        add(empty_module(), record, Stage::Active)
    }

    #[test]
    fn data_is_dropped_at_once_but_not_inside_another_destructor() -> Result {
        FREED.store(0, Relaxed);
        let outer = add_record(refuse_another)?;
        // SAFETY: The functions have no requirements.
        unsafe { refuse(outer) };
        let freed_then = FREED.load(Relaxed);
        let is_kept =
            Notifier::release_last(empty_module(), u64::MAX) && Notifier::free_last(empty_module());

        assert_eq!(freed_then, 10);
        assert!(is_kept && !Notifier::has_records(empty_module()));
        assert_eq!(FREED.load(Relaxed), 11);
        assert!(!is_in_refusal());
        Ok(())
    }

    /// Data whose destructor makes a registration.
    struct Registers;

    impl Drop for Registers {
        fn drop(&mut self) {
            let is_kept = unless_closed(empty_module(), ()).is_ok();
            FREED.add(if is_kept { 100 } else { 1 }, Relaxed);
        }
    }

    #[test]
    fn data_is_dropped_if_the_module_is_closed() -> Result {
        FREED.store(0, Relaxed);
        let counter = AddCounter::new(empty_module());
        let value = unless_closed(empty_module(), Registers)?;
        let dropped_then = FREED.load(Relaxed);
        counter.close();
        let error = unless_closed(empty_module(), value).err();
        drop(counter);

        assert_eq!((dropped_then, error), (0, Some(ENODEV)));
        assert_eq!(FREED.load(Relaxed), 100);
        Ok(())
    }
}
