// SPDX-License-Identifier: GPL-2.0

//! What must be undone before a module's code goes.
//!
//! A registration that C keeps a pointer to has to be gone when its module is. Its destructor sees
//! to that, but safe code may leak a value, and then it never runs. So what must not outlive a
//! module is noted here, and undone when the kernel says that the module is going: after its exit
//! function, or a failed init function, and before its memory is freed.
//!
//! After a failed init function there may still be references to the module: others could use what
//! it had registered by then. The kernel frees its memory all the same, so this waits for them.

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

/// What is called with a pointer to what there is to undo.
type Action = unsafe fn(NonNull<c_void>);

/// One thing to undo.
struct Undo {
    noted: Noted,
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
    stage: Stage,
}

/// How far one thing is undone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `stop` is to be called.
    Active,
    /// `stop` is running.
    Stopping,
    /// `stop` has returned, or there is nothing to stop yet.
    Stopped,
}

// SAFETY: `on_going()` asks for functions that any task may call.
unsafe impl Send for Undo {}

/// How many modules can go at a time; others wait.
const MAX_GOING: usize = 8;

/// How often a module may note more while it goes, before its work items are not queued any more.
const MAX_ROUNDS: u32 = 4;

/// A module that goes.
#[derive(Clone, Copy)]
struct GoingModule {
    /// 0 if there is none.
    address: usize,
    /// How often something was noted for it since it goes. 64 bits do not run out.
    noted: u64,
}

/// What there is to undo.
struct Undos {
    stack: Stack<Undo>,
    /// What the next one gets. 64 bits do not run out.
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

    /// Returns what is known of the module at an address that goes, or of none for 0.
    fn going_mut(&mut self, address: usize) -> Option<&mut GoingModule> {
        self.going.iter_mut().find(|going| going.address == address)
    }
}

/// Counts what is noted for a module that goes, until it is dropped.
struct Watch {
    address: usize,
}

impl Watch {
    /// Waits until there are not too many modules that go.
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

    /// Returns how often something was noted for the module, also if it is undone.
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

/// Noting something, for tests of what follows if that fails.
#[cfg(kscale_kunit)]
pub(crate) static NOTE: crate::testing::failpoint::Failpoint =
    crate::testing::failpoint::Failpoint::new();

global_lock! {
    // SAFETY: Initialised by `Notifier::new()`, which all other modules' loading comes after.
    unsafe(uninit) static UNDOS: Mutex<Undos> = Undos::new();
}

/// Notes something, in memory that is allocated with no lock held: callbacks of shrinkers wait for it.
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

/// The number of what [`on_going()`] noted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noted(u64);

/// Tells whether functions at `addresses` are code of `module`.
///
/// Of generic functions there may be copies in several modules.
///
/// # Safety
///
/// `module` must be NULL, which built-in code has for a module, or one that is loaded.
pub(crate) unsafe fn has_code(module: *mut bindings::module, addresses: &[usize]) -> bool {
    !module.is_null()
        && addresses.iter().all(|address| {
            // SAFETY: By the safety requirements, and not NULL.
            unsafe { bindings::within_module(*address, module) }
        })
}

/// Calls `stop` with `data` when `module` goes, and `free` when the last reference to it is gone.
///
/// What was noted last is undone first. Fails with [`ENOMEM`].
///
/// # Safety
///
/// - `module` must be a module that is loaded and whose code this is called from.
/// - `stop` must be fit to be called once with `data`, in process context by any task, when neither
///   the module's init nor its exit function runs any more, or by [`stop_now()`].
/// - `free` must be fit to be called after `stop`, when nothing refers to the module any more.
pub(crate) unsafe fn on_going(
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
) -> Result<Noted> {
    note(module, (stop, free), data, Stage::Active)
}

/// As [`on_going()`], but there is nothing to stop before [`activate()`].
///
/// # Safety
///
/// As for [`on_going()`], but `stop` need not be fit to be called before [`activate()`] is.
pub(crate) unsafe fn prepare(
    module: *mut bindings::module,
    stop: Action,
    free: Action,
    data: NonNull<c_void>,
) -> Result<Noted> {
    note(module, (stop, free), data, Stage::Stopped)
}

/// Changes the stage of what was noted, if it is still there.
fn set_stage(noted: Noted, stage: Stage) {
    let mut undos = UNDOS.lock();
    if let Some(undo) = undos.stack.find_mut(|undo| undo.noted == noted) {
        undo.stage = stage;
    }
}

/// Has `stop` be called from now on for what [`prepare()`] noted.
///
/// # Safety
///
/// - `noted` must be from [`prepare()`], and this be called once.
/// - The module must have been kept from going since then: its init function runs, or the caller
///   has a reference to it or is a destructor that [`srcu`] knows of.
pub(crate) unsafe fn activate(noted: Noted) {
    set_stage(noted, Stage::Active);
}

/// Calls `stop` of what was noted, unless the module is going and has it called itself.
///
/// `free` will be called in any case. Does nothing if it was called already.
pub(crate) fn stop_now(noted: Noted) {
    stop_last(|undo| undo.noted == noted);
}

/// Calls `stop` of the last active one that is fit, and tells whether there was any.
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

    // SAFETY: It was active, so this is called once, and before `free`. The module is going after
    // its init and exit functions, or this is `stop_now()`.
    unsafe { stop(data) };
    set_stage(noted, Stage::Stopped);
    true
}

/// Takes back what [`on_going()`] noted, and tells whether it was in time.
///
/// If so then neither of the two functions was called, and none will be. Otherwise both will be, if
/// they have not been yet.
pub(crate) fn take_back(noted: Noted) -> bool {
    UNDOS
        .lock()
        .stack
        .take(|undo| undo.noted == noted && undo.stage == Stage::Active)
        .is_some()
}

/// Hears of modules that go, while it lives.
///
/// # Invariants
///
/// `block` is registered as a module notifier until it is dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct Notifier {
    #[pin]
    block: Opaque<bindings::notifier_block>,
}

// SAFETY: A notifier may be unregistered by any task.
unsafe impl Send for Notifier {}

// SAFETY: There is nothing to do with a `&Notifier`.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// Starts to listen. To be called once, before anything else in this crate.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: `block` is registered if this closure returns `Ok`.
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                // SAFETY: The library's own module init calls this, once, and no other module can
                // use the library before it returned.
                unsafe { UNDOS.init() };
                // SAFETY: As above.
                unsafe { workqueue::init() };
                let block = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { slot.write(block) };
                // SAFETY: `slot` was written, and stays put until `PinnedDrop`.
                to_result(unsafe { bindings::register_module_notifier(slot) })
            }),
        })
    }

    /// Undoes what was noted for a module that goes.
    ///
    /// # Safety
    ///
    /// The module notifier chain must call this.
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

    /// Undoes what was noted for a module that goes. Waits for its last reference.
    fn undo(module: *mut bindings::module) {
        let watch = Watch::new(module);
        let mut going = None;
        let mut rounds = 0;
        loop {
            let noted = watch.noted();
            while stop_last(|undo| undo.module == module) {}
            workqueue::flush_for(module);
            srcu::wait_for_callbacks(module);
            // What was stopped, and destructors that were waited for, may have noted more, or left
            // something to another destructor. So this ends when nothing was noted meanwhile. What is
            // noted for another module has no code of this one.
            let has_noted = watch.noted() != noted;
            if !has_noted && !Self::is_noted(module) {
                if going.is_some() {
                    break;
                }
                // Only what queues itself again and again is left, if anything. Once more without.
                going = Some(workqueue::Going::new(module));
                continue;
            }
            // No new references are given to a module that is going, so it only gets less.
            //
            // SAFETY: The module is not freed before the notifiers have returned.
            let is_referenced = unsafe { bindings::module_refcount(module) } > 0;
            if has_noted && !is_referenced && going.is_none() {
                // What queues itself again and again may note more each time, so it goes then, too.
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
            // SAFETY: `stop` was called, and nothing refers to the module any more. The undo has
            // left the list, so this is called once.
            unsafe { (undo.value.free)(undo.value.data) };
        }
        srcu::forget_destructors(module);
        lock_class::forget(module);
    }

    /// Tells whether something is noted for a module.
    fn is_noted(module: *mut bindings::module) -> bool {
        let undos = UNDOS.lock();
        let is_noted = undos.stack.iter().any(|undo| undo.module == module);
        is_noted
    }

    /// Removes the last one that is stopped.
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
        // The library is the last to go, and nobody hears of that any more.
        Self::undo(this_module::<crate::LocalModule>().as_ptr());
        workqueue::destroy_leaked();
        dm::wait_for_tails();
    }
}

/// What tests of registrations share.
#[cfg(kscale_kunit)]
pub(crate) mod testing {
    use super::*;

    use core::mem::MaybeUninit;

    use kernel::ModuleMetadata;

    /// Memory of a module that has no code.
    struct Empty(MaybeUninit<bindings::module>);

    // SAFETY: Nobody writes to it.
    unsafe impl Sync for Empty {}

    static EMPTY: Empty = Empty(MaybeUninit::zeroed());

    /// Returns a module that nothing is code of.
    pub(crate) const fn empty_module() -> *mut bindings::module {
        EMPTY.0.as_ptr().cast_mut()
    }

    /// A module that nothing is code of.
    pub(crate) struct EmptyModule;

    impl ModuleMetadata for EmptyModule {
        const NAME: &'static CStr = c"empty";

        // SAFETY: It is only asked what code it has.
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

    /// Has nothing to undo.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    unsafe fn nothing(_: NonNull<c_void>) {}

    /// Tells whether lockdep looks for deadlocks, and has not found any yet.
    fn is_watched() -> bool {
        // SAFETY: It is a number that only gets 0.
        unsafe { (&raw const bindings::debug_locks).read_volatile() != 0 }
    }

    /// What is undone in callbacks of shrinkers must not wait for who allocates.
    #[test]
    fn things_are_taken_back_when_memory_is_short() -> Result {
        let was_watched = is_watched();
        let mut noted = KVec::new();
        // More than fit into what was allocated before.
        for _ in 0..100 {
            let module = this_module::<crate::LocalModule>().as_ptr();
            let data = NonNull::dangling();
            // SAFETY: The library is loaded, and neither function does anything.
            let one = unsafe { on_going(module, nothing, nothing, data) }?;
            noted.push(one, GFP_KERNEL)?;
        }

        // As in reclaim.
        // SAFETY: Only lockdep hears of it, and of the end of it below.
        unsafe { bindings::fs_reclaim_acquire(bindings::GFP_KERNEL) };
        let taken = noted.iter().filter(|one| take_back(**one)).count();
        // SAFETY: As above.
        unsafe { bindings::fs_reclaim_release(bindings::GFP_KERNEL) };

        assert_eq!(taken, noted.len());
        assert_eq!(is_watched(), was_watched);
        Ok(())
    }

    /// What functions were called with, as digits.
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

    /// Returns what was called since the last time.
    fn calls() -> (u32, u32) {
        let calls = (CALLS.stopped.load(Relaxed), CALLS.freed.load(Relaxed));
        CALLS.stopped.store(0, Relaxed);
        CALLS.freed.store(0, Relaxed);
        calls
    }

    /// An address that no module is at, nor anything else.
    fn nowhere(number: usize) -> *mut bindings::module {
        ptr::without_provenance_mut(number)
    }

    /// Notes a digit for a module.
    fn note_digit(module: *mut bindings::module, digit: usize, stage: Stage) -> Result<Noted> {
        let data = NonNull::new(ptr::without_provenance_mut(digit)).ok_or(EINVAL)?;
        note(module, (note_stop, note_free), data, stage)
    }

    /// Frees the last that is stopped, and tells whether there was one.
    fn free_next(module: *mut bindings::module) -> bool {
        let Some(undo) = Notifier::next_to_free(module) else {
            return false;
        };
        // SAFETY: The functions ask for nothing.
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

        // What is of another module stays as it was.
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
        // Once.
        stop_now(first);
        assert_eq!(calls(), (0, 0));
        // It is too late.
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
        // SAFETY: Nothing has code there.
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

        // Also if it is taken back.
        for noted in 1..=3 {
            assert!(take_back(note_digit(module, 1, Stage::Active)?));
            assert_eq!((watch.noted(), others.noted()), (noted, 0));
        }
        drop(watch);
        assert!(take_back(note_digit(module, 1, Stage::Active)?));

        // One that comes to the same address starts again.
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
        // Functions, whether they are all of this module.
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
