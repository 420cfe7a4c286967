// SPDX-License-Identifier: GPL-2.0

//! Cleanup that the module notifier runs at `MODULE_STATE_GOING` for registrations whose destructor
//! was leaked.
//!
//! A registration that gives C a pointer into a module must end before the module is freed. The
//! registration's destructor ends it, but safe code may leak the value, so that the destructor
//! never runs. So each such registration adds a cleanup record here. The records of a module run
//! when the kernel reports that the module is going: after its exit function or its failed init
//! function, and before its memory is freed.
//!
//! After a failed init function there may still be references to the module: other code may use
//! what the init function has registered. The kernel frees the module's memory all the same, so the
//! notifier waits for these references.

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::global_lock,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    lib::stack::Node, //
};

mod notifier;
mod records;
mod refusal;

pub(crate) use self::{
    notifier::Notifier,
    records::RecordId,
    refusal::{
        free_refused,
        is_in_refusal,
        refuse,
        unless_closed, //
    }, //
};

use self::records::{
    Action,
    GoingModule,
    Memory,
    Record,
    Records,
    Stage, //
};

/// Counts the records that are added for a going module, until this is dropped.
struct AddCounter {
    address: usize,
}

impl AddCounter {
    /// Waits until there is memory.
    fn new(module: *mut bindings::module) -> Self {
        let address = module.addr();
        loop {
            let going = GoingModule {
                address,
                added: 0,
                refused: 0,
                is_closed: false,
            };
            if let Ok(node) = Node::new(going) {
                RECORDS.lock().going.push(node);
                return Self { address };
            }
            fsleep(Delta::from_millis(10));
        }
    }

    /// Returns the number of records added for the module, including those that have run.
    fn added(&self) -> u64 {
        let mut records = RECORDS.lock();
        records
            .going_mut(self.address)
            .map_or(0, |going| going.added)
    }

    /// Returns the number of registrations of the module that were refused.
    fn refused(&self) -> u64 {
        let mut records = RECORDS.lock();
        records
            .going_mut(self.address)
            .map_or(0, |going| going.refused)
    }

    /// Refuses further registrations of the module.
    fn close(&self) {
        if let Some(going) = RECORDS.lock().going_mut(self.address) {
            going.is_closed = true;
        }
    }
}

impl Drop for AddCounter {
    fn drop(&mut self) {
        let address = self.address;
        let node = RECORDS.lock().going.take(|going| going.address == address);
        drop(node);
    }
}

/// Fails the addition of a record in tests.
#[cfg(kscale_kunit)]
pub(crate) static ADD: crate::testing::failpoint::Failpoint =
    crate::testing::failpoint::Failpoint::new();

global_lock! {
    // SAFETY: Initialised by `Notifier::new()`, before any other module can be loaded.
    unsafe(uninit) static RECORDS: Mutex<Records> = Records::new();
}

/// Adds a record. Allocates with no lock held, as callbacks of shrinkers take the lock.
fn add(module: *mut bindings::module, record: Record, stage: Stage) -> Result<RecordId> {
    #[cfg(kscale_kunit)]
    ADD.check()?;
    let memory = Memory::new()?;
    Ok(RECORDS.lock().add(module, memory, record, stage))
}

/// Returns whether the module gets no more registrations: it is going, and has made too many, or
/// some in too many rounds of the notifier. The caller must then refuse a registration, which is
/// counted. It must end one that it has just added a record for, by [`refuse()`], or by
/// [`abandon()`] and [`free_refused()`].
pub(crate) fn is_closed(module: *mut bindings::module) -> bool {
    let mut records = RECORDS.lock();
    records.going_mut(module.addr()).is_some_and(|going| {
        going.refused = going.refused.wrapping_add(u64::from(going.is_closed));
        going.is_closed
    })
}

/// Calls `stop` with `data` when `module` is going, and `free` after the last reference is dropped.
///
/// The oldest record is stopped first, and freed last. Fails with [`ENOMEM`].
///
/// # Safety
///
/// - `module` must be a loaded module, and the code of the module must call this.
/// - It must be sound to call `stop` once with `data`, in process context, from any task: when the
///   module's init and exit functions no longer run, or from [`stop_now()`] or [`end()`].
/// - It must be sound to call `free` after `stop`, when nothing refers to the module any more.
pub(crate) unsafe fn register(
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
) -> Result<RecordId> {
    let record = Record {
        stop,
        release: nothing,
        free,
        waits: false,
        data,
    };
    add(module, record, Stage::Active)
}

/// An action that does nothing.
///
/// # Safety
///
/// There are no requirements.
unsafe fn nothing(_: NonNull<c_void>) {}

/// As [`register()`], but no function is called before [`activate()`] or [`abandon()`].
///
/// The notifier waits for one of these, as a work item of a going module may add the record. `free`
/// may wait for code of the module, and this code may wait for what another record has. So the
/// notifier first calls `release` of these records, and `free` of the records of [`register()`].
///
/// # Safety
///
/// As for [`register()`], except that `stop` need not be sound to call before [`activate()`] is. It
/// must be sound to call `release` once under the conditions for `free`, before `free`.
/// The caller must soon call [`activate()`] or [`abandon()`].
pub(crate) unsafe fn prepare(
    module: *mut bindings::module,
    stop: Action,
    release: Action,
    free: Action,
    data: NonNull<c_void>,
) -> Result<RecordId> {
    let record = Record {
        stop,
        release,
        free,
        waits: true,
        data,
    };
    add(module, record, Stage::Prepared)
}

/// Activates a record of [`prepare()`]: `stop` is called from now on.
///
/// # Safety
///
/// - `id` must be from [`prepare()`], and neither this nor [`abandon()`] was called for it.
/// - It must be sound to call `stop`, see [`register()`].
pub(crate) unsafe fn activate(id: RecordId) {
    RECORDS.lock().put(id, Stage::Prepared, Stage::Active);
}

/// Ends a record of [`prepare()`] without a call of `stop`. `free` is called at module unload.
///
/// # Safety
///
/// - `id` must be from [`prepare()`], and neither this nor [`activate()`] was called for it.
/// - It must be sound to call `free` without `stop`, when nothing refers to the module any more.
pub(crate) unsafe fn abandon(id: RecordId) {
    RECORDS.lock().put(id, Stage::Prepared, Stage::Stopped);
}

/// Calls `stop` of a record, unless the module is going and the notifier calls it.
///
/// `free` is called later in any case. Does nothing if `stop` was called already.
pub(crate) fn stop_now(id: RecordId) {
    let record = RECORDS.lock().put(id, Stage::Active, Stage::Stopping);
    let Some(record) = record else {
        return;
    };

    // SAFETY: The record was active, so `stop` is called once, and before `free`. The module's init
    // and exit functions no longer run, or the caller is that of the registration.
    unsafe { (record.stop)(record.data) };
    RECORDS.lock().put(id, Stage::Stopping, Stage::Stopped);
}

/// Calls the functions of a record that is still active. If it is not, the notifier calls them,
/// unless they were called already.
///
/// The caller may be another module than that of the functions. So the record exists until all
/// have returned: the notifier of their module waits for it.
///
/// # Safety
///
/// It must be sound to call `free` of the record right after `stop`.
pub(crate) unsafe fn end(id: RecordId) {
    let record = RECORDS.lock().put(id, Stage::Active, Stage::Ending);
    let Some(record) = record else {
        return;
    };

    // SAFETY: The record was active, so `stop` is called once, and before `free`.
    unsafe { (record.stop)(record.data) };
    // SAFETY: By the safety requirements. It is called once, as the record was active.
    unsafe { (record.release)(record.data) };
    // SAFETY: As above.
    unsafe { (record.free)(record.data) };
    RECORDS.lock().remove(id, Stage::Ending);
}

/// Returns what `f` returns for the data of a record that is active. The record stays active
/// meanwhile.
///
/// `f` must not call functions of this module: they wait for it (deadlock).
pub(crate) fn with_active<R>(id: RecordId, f: impl FnOnce(NonNull<c_void>) -> R) -> Option<R> {
    let mut records = RECORDS.lock();
    let record = records.get(id, Stage::Active)?;
    Some(f(record.data))
}

/// A module without code, for tests of registrations.
#[cfg(kscale_kunit)]
pub(crate) mod testing {
    use super::*;

    use core::mem::MaybeUninit;

    use kernel::ModuleMetadata;

    /// Memory of a module that has no code.
    struct Empty(MaybeUninit<bindings::module>);

    // SAFETY: Nothing writes to it.
    unsafe impl Sync for Empty {}

    static EMPTY: Empty = Empty(MaybeUninit::zeroed());

    /// Returns a module to which no code belongs.
    pub(crate) const fn empty_module() -> *mut bindings::module {
        EMPTY.0.as_ptr().cast_mut()
    }

    /// A module to which no code belongs.
    pub(crate) struct EmptyModule;

    impl ModuleMetadata for EmptyModule {
        const NAME: &'static CStr = c"empty";

        // SAFETY: Only the module's code ranges are read.
        const THIS_MODULE: ThisModule = unsafe { ThisModule::from_ptr(empty_module()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_module)]
mod tests {
    use super::*;

    use kernel::{
        module::this_module,
        sync::atomic::{
            Atomic,
            Relaxed, //
        }, //
    };

    use core::ptr;

    use crate::testing::lockdep;

    /// Removes a record that is still active, and returns whether there was one.
    fn cancel(id: RecordId) -> bool {
        RECORDS.lock().remove(id, Stage::Active).is_some()
    }

    /// Returns a record whose `stop` and `free` log their calls.
    fn logged(digit: usize) -> Result<Record> {
        Ok(Record {
            stop: log_stop,
            release: nothing,
            free: log_free,
            waits: false,
            data: NonNull::new(ptr::without_provenance_mut(digit)).ok_or(EINVAL)?,
        })
    }

    /// Stops the oldest active record, and returns whether there was one.
    fn stop_next(module: *mut bindings::module) -> bool {
        Notifier::stop_first(module, u64::MAX)
    }

    /// A record that a shrinker's callback removes must not wait for a task that allocates.
    #[test]
    fn cancel_works_in_reclaim() -> Result {
        let was_active = lockdep::is_active();
        let mut id = KVec::new();
        // More records than any preallocation.
        for _ in 0..100 {
            let module = this_module::<crate::LocalModule>().as_ptr();
            let data = NonNull::dangling();
            // SAFETY: The library is loaded, and both functions do nothing.
            let one = unsafe { register(module, nothing, nothing, data) }?;
            id.push(one, GFP_KERNEL)?;
        }

        let taken = lockdep::in_reclaim(|| id.iter().filter(|one| cancel(**one)).count());

        assert_eq!(taken, id.len());
        assert_eq!(lockdep::is_active(), was_active);
        Ok(())
    }

    /// The arguments of the calls, as decimal digits.
    struct Calls {
        stopped: Atomic<u32>,
        freed: Atomic<u32>,
    }

    static CALLS: Calls = Calls {
        stopped: Atomic::new(0),
        freed: Atomic::new(0),
    };

    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn log_stop(data: NonNull<c_void>) {
        let digit = data.addr().get() as u32;
        CALLS
            .stopped
            .store(10 * CALLS.stopped.load(Relaxed) + digit, Relaxed);
    }

    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn log_free(data: NonNull<c_void>) {
        let digit = data.addr().get() as u32;
        CALLS
            .freed
            .store(10 * CALLS.freed.load(Relaxed) + digit, Relaxed);
    }

    /// Returns the calls since the last time.
    fn calls() -> (u32, u32) {
        let calls = (CALLS.stopped.load(Relaxed), CALLS.freed.load(Relaxed));
        CALLS.stopped.store(0, Relaxed);
        CALLS.freed.store(0, Relaxed);
        calls
    }

    /// Notes whether the module with the number has a record, which no other task may use.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn log_records(data: NonNull<c_void>) {
        let module = fake_module(data.addr().get());
        let has_own = Notifier::has_records(module)
            && !stop_next(module)
            && !Notifier::release_last(module, u64::MAX)
            && Notifier::take_released(module).is_none();
        CALLS.stopped.store(
            10 * CALLS.stopped.load(Relaxed) + u32::from(has_own),
            Relaxed,
        );
    }

    /// Another module may call `end()`.
    #[test]
    fn a_record_exists_until_its_functions_have_returned() -> Result {
        let module = fake_module(8);
        calls();
        let record = Record {
            stop: log_records,
            release: log_records,
            free: log_records,
            ..logged(8)?
        };
        let id = add(module, record, Stage::Active)?;

        // SAFETY: The functions have no requirements.
        unsafe { end(id) };

        assert_eq!(calls(), (111, 0));
        assert!(!Notifier::has_records(module));
        // SAFETY: As above.
        unsafe { end(id) };
        assert_eq!(calls(), (0, 0));

        // What is stopped early is freed by the unload, which may run at the same time.
        let record = Record {
            stop: log_records,
            ..logged(8)?
        };
        let id = add(module, record, Stage::Active)?;
        stop_now(id);
        assert_eq!(calls(), (1, 0));
        assert!(free_next(module));
        assert_eq!(calls(), (0, 8));
        Ok(())
    }

    /// Returns an address that belongs to no module.
    fn fake_module(number: usize) -> *mut bindings::module {
        ptr::without_provenance_mut(number)
    }

    /// Adds a record with a digit as its data.
    fn add_digit(module: *mut bindings::module, digit: usize, stage: Stage) -> Result<RecordId> {
        add(module, logged(digit)?, stage)
    }

    /// Frees the newest stopped record, and returns whether there was one.
    fn free_next(module: *mut bindings::module) -> bool {
        Notifier::release_last(module, u64::MAX);
        let Some(record) = Notifier::take_released(module) else {
            return false;
        };
        // SAFETY: The functions have no requirements.
        unsafe { (record.free)(record.data) };
        true
    }

    #[test]
    fn records_are_stopped_in_fifo_and_freed_in_lifo_order() -> Result {
        let (module, other) = (fake_module(8), fake_module(16));
        calls();
        for digit in 1..=4 {
            add_digit(module, digit, Stage::Active)?;
        }
        let others = add_digit(other, 9, Stage::Active)?;
        assert!(Notifier::has_records(module));
        assert!(!free_next(module));

        while stop_next(module) {}
        assert_eq!(calls(), (1234, 0));
        while free_next(module) {}
        assert_eq!(calls(), (0, 4321));
        assert!(!Notifier::has_records(module));

        // Records of another module do not change.
        assert!(Notifier::has_records(other));
        assert!(cancel(others));
        assert!(!Notifier::has_records(other));
        assert_eq!(calls(), (0, 0));
        Ok(())
    }

    #[test]
    fn all_records_are_released_before_one_is_freed() -> Result {
        let module = fake_module(8);
        calls();
        for digit in 1..=4 {
            let record = Record {
                stop: nothing,
                release: log_stop,
                waits: digit % 2 == 0,
                ..logged(digit)?
            };
            add(module, record, Stage::Stopped)?;
        }

        while Notifier::release_last(module, u64::MAX) {}
        assert_eq!(calls(), (4321, 0));
        // Those that wait are freed last.
        while Notifier::free_last(module) {}
        assert_eq!(calls(), (0, 3142));
        assert!(!Notifier::has_records(module));
        Ok(())
    }

    #[test]
    fn stop_now_frees_later() -> Result {
        let module = fake_module(8);
        calls();
        let first = add_digit(module, 1, Stage::Active)?;
        let second = add_digit(module, 2, Stage::Active)?;

        stop_now(first);
        assert_eq!(calls(), (1, 0));
        // Only once.
        stop_now(first);
        assert_eq!(calls(), (0, 0));
        // Too late: it was stopped.
        assert!(!cancel(first));

        assert!(free_next(module));
        assert!(!free_next(module));
        assert_eq!(calls(), (0, 1));
        assert!(cancel(second));
        assert!(!cancel(second));
        assert!(!Notifier::has_records(module));
        Ok(())
    }

    #[test]
    fn prepared_record_runs_only_after_activate() -> Result {
        let module = fake_module(8);
        calls();
        let id = add_digit(module, 1, Stage::Prepared)?;
        let other = add_digit(module, 2, Stage::Prepared)?;

        stop_now(id);
        assert!(!stop_next(module));
        assert!(!cancel(id));
        // SAFETY: The functions have no requirements.
        unsafe { activate(id) };
        // SAFETY: As above.
        unsafe { abandon(other) };
        stop_now(other);
        assert_eq!(calls(), (0, 0));
        assert!(stop_next(module));
        assert_eq!(calls(), (1, 0));

        assert!(free_next(module) && free_next(module));
        assert_eq!(calls(), (0, 21));
        Ok(())
    }

    #[test]
    fn prepared_record_is_not_freed() -> Result {
        let module = fake_module(8);
        calls();
        let data = NonNull::new(ptr::without_provenance_mut(1)).ok_or(EINVAL)?;
        // SAFETY: No module has that address, and the functions have no requirements.
        let id = unsafe { prepare(module, log_stop, nothing, log_free, data) }?;

        // As the notifier does while a work item of the going module registers a target.
        assert!(!stop_next(module));
        assert!(!free_next(module));
        assert!(Notifier::has_records(module));

        // SAFETY: As above.
        unsafe { activate(id) };
        assert!(stop_next(module));
        assert!(free_next(module));
        assert_eq!(calls(), (1, 1));
        Ok(())
    }

    #[test]
    fn records_added_for_a_going_module_are_counted() -> Result {
        let (module, other) = (fake_module(8), fake_module(16));
        let counter = AddCounter::new(module);
        let others = AddCounter::new(other);

        // Records that are removed again count, too.
        for added in 1..=3 {
            assert!(cancel(add_digit(module, 1, Stage::Active)?));
            assert_eq!((counter.added(), others.added()), (added, 0));
        }
        drop(counter);
        assert!(cancel(add_digit(module, 1, Stage::Active)?));

        // A new module at the same address starts at 0.
        let counter = AddCounter::new(module);
        assert_eq!((counter.added(), others.added()), (0, 0));
        assert!(cancel(add_digit(other, 1, Stage::Active)?));
        assert_eq!((counter.added(), others.added()), (0, 1));
        Ok(())
    }

    /// Work items may make registrations for as long as a destructor runs.
    #[test]
    fn records_that_are_newer_than_the_round_are_not_released() -> Result {
        let module = fake_module(8);
        let old = add_digit(module, 1, Stage::Stopped)?;
        let end = RECORDS.lock().next;
        let new = add_digit(module, 2, Stage::Stopped)?;
        let released = (
            Notifier::release_last(module, end),
            Notifier::release_last(module, end),
        );
        let mut records = RECORDS.lock();
        let is_old_released = records.remove(old, Stage::Released).is_some();
        let is_new_stopped = records.remove(new, Stage::Stopped).is_some();
        drop(records);

        assert_eq!(released, (true, false));
        assert!(is_old_released && is_new_stopped);
        Ok(())
    }

    #[test]
    fn a_module_that_adds_many_records_is_closed() -> Result {
        let module = fake_module(8);
        let counter = AddCounter::new(module);
        for _ in 0..records::MAX_ADDED {
            assert!(cancel(add_digit(module, 1, Stage::Active)?));
            assert!(!is_closed(module));
        }
        assert!(cancel(add_digit(module, 1, Stage::Active)?));
        assert!(is_closed(module));
        drop(counter);
        Ok(())
    }

    #[test]
    fn a_closed_module_is_open_when_it_is_loaded_again() {
        let (module, other) = (fake_module(8), fake_module(16));
        let counter = AddCounter::new(module);
        let _others = AddCounter::new(other);
        assert!(!is_closed(module));

        counter.close();
        assert!(is_closed(module) && !is_closed(other));
        assert_eq!(counter.refused(), 1);
        drop(counter);
        assert!(!is_closed(module));
        let _counter = AddCounter::new(module);
        assert!(!is_closed(module));
    }

    /// An init function of the library that fails drops the notifier. This must not wait for the
    /// reference that the kernel has meanwhile, as it has during the tests.
    #[test]
    fn exit_of_the_library_waits_for_no_reference() {
        let library = this_module::<crate::LocalModule>().as_ptr();
        // SAFETY: The library is loaded.
        let references = unsafe { bindings::module_refcount(library) };

        assert!(references > 0);
        assert!(!Notifier::is_referenced(library));
    }

    /// Modules may wait for another going module.
    #[test]
    fn any_number_of_modules_may_be_going() -> Result {
        const MODULES: usize = 20;
        let mut counters = KVec::with_capacity(MODULES, GFP_KERNEL)?;
        for number in 1..=MODULES {
            counters.push(AddCounter::new(fake_module(8 * number)), GFP_KERNEL)?;
        }
        assert!(cancel(add_digit(fake_module(8), 1, Stage::Active)?));
        let added = counters.iter().map(AddCounter::added);
        let (first, all) = (added.clone().next(), added.sum::<u64>());
        drop(counters);
        let is_empty = RECORDS.lock().going.iter().next().is_none();

        assert_eq!((first, all), (Some(1), 1));
        assert!(is_empty);
        Ok(())
    }
}
