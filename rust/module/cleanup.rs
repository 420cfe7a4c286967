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
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    module::this_module,
    prelude::*,
    sync::global_lock,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    block::dm,
    lib::stack::{
        Node,
        Stack, //
    },
    sync::{
        lock_class,
        srcu,
        workqueue, //
    }, //
};

/// A cleanup function. The argument is the `data` of the record.
type Action = unsafe fn(NonNull<c_void>);

/// A cleanup record.
struct Undo {
    noted: Noted,
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
    stage: Stage,
}

/// The progress of a cleanup record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `stop` has not been called.
    Active,
    /// `stop` is running.
    Stopping,
    /// `stop` has returned, or the record was never active.
    Stopped,
}

// SAFETY: `on_going()` requires functions that any task may call.
unsafe impl Send for Undo {}

/// The most modules that can be going at a time. Further ones wait.
const MAX_GOING: usize = 8;

/// Rounds in which a going module may add records, until its work items are no longer queued.
const MAX_ROUNDS: u32 = 4;

/// A module that is going.
#[derive(Clone, Copy)]
struct GoingModule {
    /// The address of the `struct module`, 0 if the entry is free.
    address: usize,
    /// The number of records added for the module since it is going. A `u64` does not overflow.
    noted: u64,
}

/// All cleanup records, and the modules that are going.
struct Undos {
    stack: Stack<Undo>,
    /// The number of the next record. A `u64` does not overflow.
    next: u64,
    going: [GoingModule; MAX_GOING],
}

impl Undos {
    const fn new() -> Self {
        Self {
            stack: Stack::new(),
            next: 0,
            going: [GoingModule {
                address: 0,
                noted: 0,
            }; MAX_GOING],
        }
    }

    /// Returns the entry of the going module at `address`, or a free entry for 0.
    fn going_mut(&mut self, address: usize) -> Option<&mut GoingModule> {
        self.going.iter_mut().find(|going| going.address == address)
    }
}

/// Counts the records that are added for a going module, until this is dropped.
struct Watch {
    address: usize,
}

impl Watch {
    /// Waits until fewer than [`MAX_GOING`] modules are going.
    fn new(module: *mut bindings::module) -> Self {
        let address = module.addr();
        loop {
            if let Some(free) = UNDOS.lock().going_mut(0) {
                *free = GoingModule { address, noted: 0 };
                return Self { address };
            }
            fsleep(Delta::from_millis(10));
        }
    }

    /// Returns the number of records added for the module, including those that have run.
    fn noted(&self) -> u64 {
        let mut undos = UNDOS.lock();
        undos.going_mut(self.address).map_or(0, |going| going.noted)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(going) = UNDOS.lock().going_mut(self.address) {
            going.address = 0;
        }
    }
}

/// Fails the addition of a record in tests.
#[cfg(kscale_kunit)]
pub(crate) static NOTE: crate::testing::failpoint::Failpoint =
    crate::testing::failpoint::Failpoint::new();

global_lock! {
    // SAFETY: Initialised by `Notifier::new()`, before any other module can be loaded.
    unsafe(uninit) static UNDOS: Mutex<Undos> = Undos::new();
}

/// Adds a record. Allocates with no lock held, as callbacks of shrinkers take the lock.
fn note(
    module: *mut bindings::module,
    (stop, free): (Action, Action),
    data: NonNull<c_void>,
    stage: Stage,
) -> Result<Noted> {
    #[cfg(kscale_kunit)]
    NOTE.check()?;
    let mut node = Node::new(Undo {
        noted: Noted(0),
        module,
        stop,
        free,
        data,
        stage,
    })?;
    let mut undos = UNDOS.lock();

    let noted = Noted(undos.next);
    node.value.noted = noted;
    undos.next = undos.next.wrapping_add(1);
    if let Some(going) = undos.going_mut(module.addr()) {
        going.noted = going.noted.wrapping_add(1);
    }
    undos.stack.push(node);
    Ok(noted)
}

/// The number of a record, from [`on_going()`] or [`prepare()`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noted(u64);

/// Returns whether the functions at `addresses` are code of `module`.
///
/// Several modules may have copies of one generic function.
///
/// # Safety
///
/// `module` must be NULL (the module of built-in code) or a module that is loaded.
pub(crate) unsafe fn has_code(module: *mut bindings::module, addresses: &[usize]) -> bool {
    !module.is_null()
        && addresses.iter().all(|address| {
            // SAFETY: By the safety requirements, and not NULL.
            unsafe { bindings::within_module(*address, module) }
        })
}

/// Calls `stop` with `data` when `module` is going, and `free` after the last reference is dropped.
///
/// Cleanup actions run in LIFO order. Fails with [`ENOMEM`].
///
/// # Safety
///
/// - `module` must be a loaded module, and the code of the module must call this.
/// - It must be sound to call `stop` once with `data`, in process context, from any task: when the
///   module's init and exit functions no longer run, or from [`stop_now()`].
/// - It must be sound to call `free` after `stop`, when nothing refers to the module any more.
pub(crate) unsafe fn on_going(
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
) -> Result<Noted> {
    note(module, (stop, free), data, Stage::Active)
}

/// As [`on_going()`], but `stop` is not called before [`activate()`].
///
/// # Safety
///
/// As for [`on_going()`], except that `stop` need not be sound to call before [`activate()`] is.
pub(crate) unsafe fn prepare(
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
) -> Result<Noted> {
    note(module, (stop, free), data, Stage::Stopped)
}

/// Sets the stage of a record, if the record still exists.
fn set_stage(noted: Noted, stage: Stage) {
    let mut undos = UNDOS.lock();
    if let Some(undo) = undos.stack.find_mut(|undo| undo.noted == noted) {
        undo.stage = stage;
    }
}

/// Activates a record of [`prepare()`]: `stop` is called from now on.
///
/// # Safety
///
/// - `noted` must be from [`prepare()`], and this must be called at most once for it.
/// - The module must not have been able to go since then: its init function runs, or the caller
///   holds a reference to it or is a destructor that [`srcu`] waits for.
pub(crate) unsafe fn activate(noted: Noted) {
    set_stage(noted, Stage::Active);
}

/// Calls `stop` of a record, unless the module is going and the notifier calls it.
///
/// `free` is called later in any case. Does nothing if `stop` was called already.
pub(crate) fn stop_now(noted: Noted) {
    stop_last(|undo| undo.noted == noted);
}

/// Calls `stop` of the newest active record that `is_fit`, and returns whether there was one.
fn stop_last(is_fit: impl Fn(&Undo) -> bool) -> bool {
    let mut undos = UNDOS.lock();
    let undo = undos
        .stack
        .find_mut(|undo| undo.stage == Stage::Active && is_fit(undo));
    let Some(undo) = undo else {
        return false;
    };
    undo.stage = Stage::Stopping;
    let (noted, stop, data) = (undo.noted, undo.stop, undo.data);
    drop(undos);

    // SAFETY: The record was active, so `stop` is called once, and before `free`. The module's init
    // and exit functions no longer run, or the caller is `stop_now()`.
    unsafe { stop(data) };
    set_stage(noted, Stage::Stopped);
    true
}

/// Removes a record that is still active, and returns whether it was.
///
/// If so, neither function was called nor will be. If not, both functions are called, unless they
/// were called already.
pub(crate) fn take_back(noted: Noted) -> bool {
    UNDOS
        .lock()
        .stack
        .take(|undo| undo.noted == noted && undo.stage == Stage::Active)
        .is_some()
}

/// The module notifier, registered until it is dropped.
///
/// # Invariants
///
/// `block` is registered as a module notifier until it is dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct Notifier {
    #[pin]
    block: Opaque<bindings::notifier_block>,
}

// SAFETY: Any task may unregister a notifier.
unsafe impl Send for Notifier {}

// SAFETY: A `&Notifier` has no methods.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// Registers the notifier. Must be called once, before the rest of this crate is used.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: `block` is registered if this closure returns `Ok`.
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                // SAFETY: The library's module init calls this, once, and no other module can use
                // the library before that returns.
                unsafe { UNDOS.init() };
                // SAFETY: As above.
                unsafe { workqueue::init() };
                let block = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { slot.write(block) };
                // SAFETY: `slot` was written, and does not move until `PinnedDrop`.
                to_result(unsafe { bindings::register_module_notifier(slot) })
            }),
        })
    }

    /// Handles a module notification.
    ///
    /// # Safety
    ///
    /// Only the module notifier chain may call this.
    unsafe extern "C" fn call(
        _block: *mut bindings::notifier_block,
        state: c_ulong,
        module: *mut c_void,
    ) -> c_int {
        // CAST: From 32 to 64 bits.
        if state == bindings::module_state_MODULE_STATE_GOING as c_ulong {
            Self::undo(module.cast());
        }
        // CAST: The constant is 0.
        bindings::NOTIFY_DONE as c_int
    }

    /// Runs the records of a going module. Waits for the module's last reference.
    fn undo(module: *mut bindings::module) {
        let watch = Watch::new(module);
        let mut going = None;
        let mut rounds = 0;
        loop {
            let noted = watch.noted();
            while stop_last(|undo| undo.module == module) {}
            workqueue::flush_for(module);
            srcu::wait_for_callbacks(module);
            // The `stop` functions, and destructors that were waited for, may have added records or
            // given values to other destructors. So the loop ends when no record was added
            // meanwhile. Records of other modules have no code of this one.
            let has_noted = watch.noted() != noted;
            if !has_noted && !Self::is_noted(module) {
                if going.is_some() {
                    break;
                }
                // Only work that always queues itself again can be left. Run once more without it.
                going = Some(workqueue::Going::new(module));
                continue;
            }
            // A going module gets no new references, so the count only decreases.
            //
            // SAFETY: The module is not freed before the notifiers have returned.
            let is_referenced = unsafe { bindings::module_refcount(module) } > 0;
            if has_noted && !is_referenced && going.is_none() {
                // Work that always queues itself again may add records each time: stop it, too.
                rounds += 1;
                if rounds == MAX_ROUNDS {
                    going = Some(workqueue::Going::new(module));
                }
            }
            let undo = if is_referenced {
                None
            } else {
                Self::next_to_free(module)
            };
            let Some(undo) = undo else {
                fsleep(Delta::from_millis(10));
                continue;
            };
            // SAFETY: `stop` was called, and nothing refers to the module any more. The record was
            // removed from the stack, so `free` is called once.
            unsafe { (undo.value.free)(undo.value.data) };
        }
        srcu::forget_destructors(module);
        lock_class::forget(module);
    }

    /// Returns whether there are records of a module.
    fn is_noted(module: *mut bindings::module) -> bool {
        let undos = UNDOS.lock();
        let is_noted = undos.stack.iter().any(|undo| undo.module == module);
        is_noted
    }

    /// Removes the newest stopped record of a module.
    fn next_to_free(module: *mut bindings::module) -> Option<KBox<Node<Undo>>> {
        UNDOS
            .lock()
            .stack
            .take(|undo| undo.module == module && undo.stage == Stage::Stopped)
    }
}

#[pinned_drop]
impl PinnedDrop for Notifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `block` is registered by the type invariants.
        unsafe { bindings::unregister_module_notifier(self.block.get()) };
        // The library is unloaded last. The notifier is not called for the library itself any more.
        Self::undo(this_module::<crate::LocalModule>().as_ptr());
        workqueue::destroy_leaked();
        dm::wait_for_tails();
    }
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

    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    use core::ptr;

    /// A cleanup function that does nothing.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn nothing(_: NonNull<c_void>) {}

    /// Returns whether lockdep is active: it has found no deadlock yet.
    fn is_watched() -> bool {
        // SAFETY: It is an integer that is only ever cleared.
        unsafe { (&raw const bindings::debug_locks).read_volatile() != 0 }
    }

    /// A record that a shrinker's callback removes must not wait for a task that allocates.
    #[test]
    fn things_are_taken_back_when_memory_is_short() -> Result {
        let was_watched = is_watched();
        let mut noted = KVec::new();
        // More records than any preallocation.
        for _ in 0..100 {
            let module = this_module::<crate::LocalModule>().as_ptr();
            let data = NonNull::dangling();
            // SAFETY: The library is loaded, and both functions do nothing.
            let one = unsafe { on_going(module, nothing, nothing, data) }?;
            noted.push(one, GFP_KERNEL)?;
        }

        // As in reclaim.
        // SAFETY: Only sets lockdep's state of this task. The call below resets it.
        unsafe { bindings::fs_reclaim_acquire(bindings::GFP_KERNEL) };
        let taken = noted.iter().filter(|one| take_back(**one)).count();
        // SAFETY: As above.
        unsafe { bindings::fs_reclaim_release(bindings::GFP_KERNEL) };

        assert_eq!(taken, noted.len());
        assert_eq!(is_watched(), was_watched);
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
    unsafe fn note_stop(data: NonNull<c_void>) {
        let digit = data.addr().get() as u32;
        CALLS
            .stopped
            .store(10 * CALLS.stopped.load(Relaxed) + digit, Relaxed);
    }

    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn note_free(data: NonNull<c_void>) {
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

    /// Returns an address that belongs to no module.
    fn nowhere(number: usize) -> *mut bindings::module {
        ptr::without_provenance_mut(number)
    }

    /// Adds a record with a digit as its data.
    fn note_digit(module: *mut bindings::module, digit: usize, stage: Stage) -> Result<Noted> {
        let data = NonNull::new(ptr::without_provenance_mut(digit)).ok_or(EINVAL)?;
        note(module, (note_stop, note_free), data, stage)
    }

    /// Frees the newest stopped record, and returns whether there was one.
    fn free_next(module: *mut bindings::module) -> bool {
        let Some(undo) = Notifier::next_to_free(module) else {
            return false;
        };
        // SAFETY: The functions have no requirements.
        unsafe { (undo.value.free)(undo.value.data) };
        true
    }

    #[test]
    fn what_was_noted_last_is_undone_first() -> Result {
        let (module, other) = (nowhere(8), nowhere(16));
        calls();
        for digit in 1..=4 {
            note_digit(module, digit, Stage::Active)?;
        }
        let others = note_digit(other, 9, Stage::Active)?;
        assert!(Notifier::is_noted(module));
        assert!(!free_next(module));

        while stop_last(|undo| undo.module == module) {}
        assert_eq!(calls(), (4321, 0));
        while free_next(module) {}
        assert_eq!(calls(), (0, 4321));
        assert!(!Notifier::is_noted(module));

        // Records of another module do not change.
        assert!(Notifier::is_noted(other));
        assert!(take_back(others));
        assert!(!Notifier::is_noted(other));
        assert_eq!(calls(), (0, 0));
        Ok(())
    }

    #[test]
    fn what_is_stopped_now_is_freed_later() -> Result {
        let module = nowhere(8);
        calls();
        let first = note_digit(module, 1, Stage::Active)?;
        let second = note_digit(module, 2, Stage::Active)?;

        stop_now(first);
        assert_eq!(calls(), (1, 0));
        // Only once.
        stop_now(first);
        assert_eq!(calls(), (0, 0));
        // Too late: it was stopped.
        assert!(!take_back(first));

        assert!(free_next(module));
        assert!(!free_next(module));
        assert_eq!(calls(), (0, 1));
        assert!(take_back(second));
        assert!(!take_back(second));
        assert!(!Notifier::is_noted(module));
        Ok(())
    }

    #[test]
    fn what_is_prepared_is_not_stopped_before_it_is_active() -> Result {
        let module = nowhere(8);
        calls();
        let noted = note_digit(module, 1, Stage::Stopped)?;
        let other = note_digit(module, 2, Stage::Stopped)?;

        stop_now(noted);
        assert!(!stop_last(|undo| undo.module == module));
        assert!(!take_back(noted));
        // SAFETY: No module has that address.
        unsafe { activate(noted) };
        stop_now(other);
        assert_eq!(calls(), (0, 0));
        assert!(stop_last(|undo| undo.module == module));
        assert_eq!(calls(), (1, 0));

        assert!(free_next(module) && free_next(module));
        assert_eq!(calls(), (0, 21));
        Ok(())
    }

    #[test]
    fn what_is_noted_for_a_module_that_goes_is_counted() -> Result {
        let (module, other) = (nowhere(8), nowhere(16));
        let watch = Watch::new(module);
        let others = Watch::new(other);

        // Records that are removed again count, too.
        for noted in 1..=3 {
            assert!(take_back(note_digit(module, 1, Stage::Active)?));
            assert_eq!((watch.noted(), others.noted()), (noted, 0));
        }
        drop(watch);
        assert!(take_back(note_digit(module, 1, Stage::Active)?));

        // A new module at the same address starts at 0.
        let watch = Watch::new(module);
        assert_eq!((watch.noted(), others.noted()), (0, 0));
        assert!(take_back(note_digit(other, 1, Stage::Active)?));
        assert_eq!((watch.noted(), others.noted()), (0, 1));
        Ok(())
    }

    #[test]
    fn some_modules_go_at_a_time() -> Result {
        let mut watches = KVec::with_capacity(MAX_GOING + 1, GFP_KERNEL)?;
        for number in 1..=MAX_GOING {
            watches.push(Watch::new(nowhere(8 * number)), GFP_KERNEL)?;
        }
        assert!(UNDOS.lock().going_mut(0).is_none());

        drop(watches.pop());
        watches.push(Watch::new(nowhere(8 * 99)), GFP_KERNEL)?;
        drop(watches);
        let mut undos = UNDOS.lock();
        let is_free = (1..=99).all(|number| undos.going_mut(8 * number).is_none());
        drop(undos);
        assert!(is_free);
        Ok(())
    }

    #[test]
    fn all_functions_have_to_be_of_the_module() {
        let own = this_module::<crate::LocalModule>().as_ptr();
        let here = nothing as *const () as usize;
        let elsewhere = bindings::synchronize_srcu as *const () as usize;
        // Addresses of functions, whether all belong to this module.
        let rows: [(&[usize], bool); 6] = [
            (&[here], true),
            (&[here, here], true),
            (&[elsewhere], false),
            (&[here, elsewhere], false),
            (&[elsewhere, here], false),
            (&[0], false),
        ];

        for (addresses, is_own) in rows {
            // SAFETY: The library is loaded.
            assert_eq!(unsafe { has_code(own, addresses) }, is_own);
            // SAFETY: There is no module.
            assert!(!unsafe { has_code(ptr::null_mut(), addresses) });
        }
    }
}
