// SPDX-License-Identifier: GPL-2.0

//! The end of registrations that are [refused](super::is_closed).
//!
//! The data of such a registration is dropped at once, as that of any other registration that
//! fails: a work item may try again all the time, while the notifier waits for something else.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::{
    mem::MaybeUninit,
    ptr, //
};

use crate::bindings;

use super::{
    is_closed,
    records::Stage,
    RecordId,
    RECORDS, //
};

/// Returns the data of a registration that the caller is about to make. Drops it if the
/// registration would be refused. If the current task is in the destructor of such data, the data
/// is dropped after the destructor.
///
/// Without this, C would call the callbacks of each registration before it is refused.
///
/// Fails with [`ENODEV`].
pub(crate) fn unless_closed<V: 'static>(module: *mut bindings::module, value: V) -> Result<V> {
    if !is_closed(module) {
        return Ok(value);
    }
    if let Some(outer) = Entry::current() {
        // The module may end before data of another module. The notifier drops what is not kept.
        if outer.module.load(Relaxed) == module.addr() {
            if let Ok(memory) = KBox::new_uninit(GFP_KERNEL) {
                outer.keep(memory, value);
                return Err(ENODEV);
            }
        }
        return Ok(value);
    }
    let Some(_refusal) = Refusal::new(module.addr()) else {
        return Ok(value);
    };
    drop(value);
    Err(ENODEV)
}

/// Calls the functions of an active record whose registration is refused.
///
/// Inside of `free`, the notifier calls it for another record: the destructor of the data may try
/// the same again, without an end.
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

/// Calls `release` and `free` of a stopped record whose registration is refused, as [`refuse()`]
/// does.
///
/// # Safety
///
/// It must be sound to call both now.
pub(crate) unsafe fn free_refused(id: RecordId) {
    let Some(_refusal) = Refusal::new(id.module) else {
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

/// The start of a [`Kept`].
struct Head {
    next: *mut Head,
    drop: unsafe fn(*mut Head),
}

/// Data that is dropped after the destructor that the current task runs.
#[repr(C)]
struct Kept<V> {
    head: Head,
    value: V,
}

/// Drops a [`Kept`].
///
/// # Safety
///
/// `head` must be the start of a `Kept<V>` from a [`KBox`], which is not used any more.
unsafe fn drop_kept<V>(head: *mut Head) {
    // SAFETY: By the safety requirements. The type is `repr(C)`, so its first field is at its
    // address.
    drop(unsafe { KBox::from_raw(head.cast::<Kept<V>>()) });
}

/// A task that drops the data of a refused registration.
struct Entry {
    /// Its address, or 0.
    task: Atomic<usize>,
    /// The address of the module of the data.
    module: Atomic<usize>,
    /// The newest [`Kept`] of the task. Only the task uses it.
    kept: Atomic<*mut Head>,
}

impl Entry {
    const fn new() -> Self {
        Self {
            task: Atomic::new(0),
            module: Atomic::new(0),
            kept: Atomic::new(ptr::null_mut()),
        }
    }

    /// Returns the entry of the current task.
    fn current() -> Option<&'static Self> {
        let task = current_task();
        TASKS.iter().find(|entry| entry.task.load(Relaxed) == task)
    }

    /// Keeps a value until the task has dropped the data. The entry must be that of the current
    /// task.
    fn keep<V: 'static>(&self, memory: KBox<MaybeUninit<Kept<V>>>, value: V) {
        let head = Head {
            next: self.kept.load(Relaxed),
            drop: drop_kept::<V>,
        };
        let raw = KBox::into_raw(memory.write(Kept { head, value }));
        self.kept.store(raw.cast(), Relaxed);
    }
}

/// The tasks that drop the data of a refused registration.
static TASKS: [Entry; 64] = [const { Entry::new() }; 64];

/// Returns the address of the current task.
fn current_task() -> usize {
    // SAFETY: There are no requirements.
    unsafe { bindings::get_current() }.addr()
}

/// Returns whether the current task drops the data of a refused registration.
///
/// Context: Any context. Never sleeps.
pub(crate) fn is_in_refusal() -> bool {
    Entry::current().is_some()
}

/// The current task drops the data of a refused registration.
struct Refusal {
    entry: &'static Entry,
}

impl Refusal {
    /// Returns [`None`] if the task does so already, or if 64 tasks do.
    fn new(module: usize) -> Option<Self> {
        let task = current_task();
        let is_free = |entry: &&Entry| entry.task.cmpxchg(0, task, Relaxed).is_ok();
        if is_in_refusal() {
            return None;
        }
        let entry = TASKS.iter().find(is_free)?;
        entry.module.store(module, Relaxed);
        Some(Self { entry })
    }
}

impl Drop for Refusal {
    /// Drops what the task has kept. The destructors may keep more.
    fn drop(&mut self) {
        loop {
            let head = self.entry.kept.load(Relaxed);
            if head.is_null() {
                break;
            }
            // SAFETY: `keep()` has stored it, and it was not dropped yet.
            let (next, drop) = unsafe { ((*head).next, (*head).drop) };
            self.entry.kept.store(next, Relaxed);
            // SAFETY: `drop` is that of the type, and the entry does not refer to it any more.
            unsafe { drop(head) };
        }
        self.entry.task.store(0, Relaxed);
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

    /// Data whose destructor makes registrations of the same data, `left` deep.
    struct Registers {
        left: u32,
    }

    impl Drop for Registers {
        fn drop(&mut self) {
            // A destructor inside of another one would add a digit before this one does.
            if let Some(left) = self.left.checked_sub(1) {
                let inner = unless_closed(empty_module(), Registers { left });
                assert_eq!(inner.err(), Some(ENODEV));
            }
            FREED.store(10 * FREED.load(Relaxed) + self.left, Relaxed);
        }
    }

    /// Data that is counted when it is dropped.
    struct Counted(u32);

    impl Drop for Counted {
        fn drop(&mut self) {
            FREED.add(self.0, Relaxed);
        }
    }

    /// Data whose destructor makes several registrations.
    struct RegistersSome;

    impl Drop for RegistersSome {
        fn drop(&mut self) {
            for count in [1, 10, 100] {
                let error = unless_closed(empty_module(), Counted(count)).err();
                assert_eq!(error, Some(ENODEV));
            }
        }
    }

    #[test]
    fn all_data_of_a_destructor_is_dropped_after_it() -> Result {
        FREED.store(0, Relaxed);
        let counter = AddCounter::new(empty_module());
        counter.close();
        let error = unless_closed(empty_module(), RegistersSome).err();
        drop(counter);

        assert_eq!((error, FREED.load(Relaxed)), (Some(ENODEV), 111));
        Ok(())
    }

    /// The address of a module.
    struct Module(#[expect(dead_code, reason = "has an address")] u8);

    /// Data whose destructor makes a registration of another module.
    struct OfAnother(KBox<Module>);

    impl Drop for OfAnother {
        fn drop(&mut self) {
            let module = ptr::from_mut(&mut *self.0).cast();
            let counter = AddCounter::new(module);
            counter.close();
            FREED.add(unless_closed(module, 1).unwrap_or(10), Relaxed);
        }
    }

    #[test]
    fn data_of_another_module_is_not_kept() -> Result {
        FREED.store(0, Relaxed);
        let counter = AddCounter::new(empty_module());
        counter.close();
        let other = OfAnother(KBox::new(Module(0), GFP_KERNEL)?);
        let error = unless_closed(empty_module(), other).err();
        drop(counter);

        assert_eq!((error, FREED.load(Relaxed)), (Some(ENODEV), 1));
        Ok(())
    }

    #[test]
    fn data_is_dropped_if_the_module_is_closed() -> Result {
        FREED.store(0, Relaxed);
        let counter = AddCounter::new(empty_module());
        let value = unless_closed(empty_module(), Registers { left: 3 })?;
        let dropped_then = FREED.load(Relaxed);
        counter.close();
        let error = unless_closed(empty_module(), value).err();
        drop(counter);

        assert_eq!((dropped_then, error), (0, Some(ENODEV)));
        // One after the other, and before this returns.
        assert_eq!(FREED.load(Relaxed), 3210);
        assert!(!is_in_refusal());
        Ok(())
    }
}
