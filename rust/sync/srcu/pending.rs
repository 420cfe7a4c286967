// SPDX-License-Identifier: GPL-2.0

//! Counts of destructors that have not run yet, per destructor address.
//!
//! A value that was passed to `call_srcu()` or to a work queue is destroyed by code of its own
//! module. This code must be present when the destructor runs, even if the domain was leaked or
//! belongs to another module. So the library counts the pending values of each destructor. A module
//! is unloaded only when its destructors have no pending value: see
//! [`module`](crate::module::cleanup).
//!
//! C calls only functions of this library. Such a function uses no code of the module after it has
//! counted the value as ended. The exit of the library waits for the last instructions of these
//! functions.

use kernel::{
    alloc::{
        self,
        flags::{
            __GFP_NOWARN,
            GFP_NOWAIT, //
        }, //
    },
    prelude::*,
    sync::{
        atomic::{
            self,
            Atomic,
            Relaxed, //
        },
        global_lock,
        rcu::{
            self,
            synchronize_rcu, //
        },
        Arc, //
    }, //
};

use core::ptr::{
    self,
    NonNull, //
};

use crate::{
    bindings,
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use super::item::Header;

mod counts;
mod index;

use counts::Counts;

/// The function that destroys a node with this header.
pub(super) type Destructor = unsafe fn(NonNull<Header>);

/// The pending values of one destructor.
///
/// Several modules may each contain a copy of a type's destructor. A value is counted for the copy
/// that is called.
///
/// # Invariants
///
/// `queue` is [`State::queue`], which is destroyed when no value is pending.
pub(super) struct Pending {
    /// The address of the destructor. If it is [`None`], every module waits for the values.
    address: Option<usize>,
    /// Set when the module of the destructor is unloaded: no module waits for these values.
    /// `address` may then belong to other code, or to the same destructor after a reload.
    is_forgotten: Atomic<bool>,
    /// The count without an address. [`None`] in that count itself.
    foreign: Option<Arc<Pending>>,
    counts: Counts,
    queue: *mut bindings::workqueue_struct,
}

// SAFETY: Any task may use a work queue.
unsafe impl Send for Pending {}

// SAFETY: The counts are atomic, and the other fields do not change.
unsafe impl Sync for Pending {}

impl Pending {
    /// Counts a value that becomes pending.
    #[inline]
    pub(super) fn begin(&self) {
        self.counts.begin();
    }

    /// Counts a destroyed value. The module with the destructor may be unloaded from here on.
    #[inline]
    pub(super) fn end(&self) {
        self.counts.end();
    }

    /// Returns the count for a value whose destructor is in the calling module.
    ///
    /// This is `self`, unless `self` belongs to another module or to an unloaded module. Then the
    /// count is searched for, and added if there is none.
    #[inline]
    pub(super) fn of_caller(self: Arc<Self>, destructor: Destructor) -> Arc<Self> {
        // If another module has the address now, `is_forgotten` is set: code of that module runs
        // here, and that module was loaded after the first was unloaded.
        let is_own = self.address == Some(destructor as *const () as usize)
            && !self.is_forgotten.load(Relaxed);

        if is_own {
            self
        } else {
            self.of_address(destructor as *const () as usize)
        }
    }

    /// Returns the count of a destructor.
    ///
    /// If there is no memory for a new count, it is the count that all modules wait for. The same
    /// holds in an interrupt, where no memory is allocated.
    #[cold]
    fn of_address(self: Arc<Self>, address: usize) -> Arc<Self> {
        let Some(foreign) = &self.foreign else {
            return self;
        };
        let address = Some(address);
        // SAFETY: The function reads the state of this CPU and of the current task.
        let may_allocate = || unsafe { bindings::may_allocate_nowait() };
        index::find(address).unwrap_or_else(|| {
            let flags = GFP_NOWAIT | __GFP_NOWARN;
            let added = may_allocate()
                .then(|| add(address, Some(foreign.clone()), self.queue, flags))
                .and_then(Result::ok);
            added.unwrap_or_else(|| foreign.clone())
        })
    }

    /// Returns the queue for destructors that sleep.
    #[inline]
    pub(super) fn queue(&self) -> *mut bindings::workqueue_struct {
        self.queue
    }

    /// Marks this count as one that no module waits for.
    fn forget(&self) {
        self.is_forgotten.store(true, Relaxed);
    }

    /// Returns whether the values need `module`. Without an address it returns `or`.
    fn needs(&self, module: *const bindings::module, or: bool) -> bool {
        self.address.map_or(or, |address| {
            // SAFETY: Callers pass a module that is live or going, so it is not freed.
            unsafe { bindings::within_module(address, module) }
        })
    }
}

/// The global state. Its lock is also that for removals from [`index`].
struct State {
    queue: Option<Workqueue>,
}

global_lock! {
    // SAFETY: `Reaper::new()` initialises it before any other function of `srcu` runs.
    unsafe(uninit) static STATE: Mutex<State> = State { queue: None };
}

/// Fails the addition of a count in tests.
#[cfg(kscale_kunit)]
static ADD: crate::testing::failpoint::Failpoint = crate::testing::failpoint::Failpoint::new();

/// Returns the count of `address`, and adds it if there is none.
///
/// `queue` must be the queue of [`State`].
fn add(
    address: Option<usize>,
    foreign: Option<Arc<Pending>>,
    queue: *mut bindings::workqueue_struct,
    flags: alloc::Flags,
) -> Result<Arc<Pending>> {
    #[cfg(kscale_kunit)]
    ADD.check()?;
    // INVARIANT: `queue` is the queue until the library exits.
    let pending = Arc::new(
        Pending {
            address,
            is_forgotten: Atomic::new(false),
            foreign,
            counts: Counts::new(),
            queue,
        },
        flags,
    )?;
    Ok(index::add(index::Entry::new(pending, flags)?))
}

/// Returns the queue for destructors that sleep.
pub(super) fn queue() -> *mut bindings::workqueue_struct {
    let state = STATE.lock();
    state
        .queue
        .as_ref()
        .map_or(ptr::null_mut(), Workqueue::as_raw)
}

/// Returns the count of the destructor at `address`.
///
/// Fails with [`ENOMEM`].
pub(super) fn of(address: usize) -> Result<Arc<Pending>> {
    let address = Some(address);
    index::find(address).map_or_else(|| add(address, index::find(None), queue(), GFP_KERNEL), Ok)
}

/// Returns the number of values that need `module` and are not destroyed yet.
///
/// Called when the exit function of the going module has returned. Its code may still retire
/// earlier values, until [`forget_destructors()`].
pub(crate) fn pending_values(module: *mut bindings::module) -> u64 {
    let rcu = rcu::read_lock();
    Counts::left(|| {
        let own = index::iter(&rcu).filter(|it| it.needs(module, true));
        own.map(|it| &it.counts)
    })
}

/// Returns the number of values that destructors of `module` got so far.
pub(crate) fn begun_values(module: *mut bindings::module) -> u64 {
    let rcu = rcu::read_lock();
    let own = index::iter(&rcu).filter(|it| it.needs(module, false));
    own.fold(0, |sum, it| it.counts.begun().wrapping_add(sum))
}

/// Removes the counts of a module whose code does not run again.
///
/// Pointers and lists that the module created may still refer to them.
pub(crate) fn forget_destructors(module: *mut bindings::module) {
    index::remove(|it| it.needs(module, false));
}

/// The owner of the queue for destructors that sleep.
pub(crate) struct Reaper(());

impl Reaper {
    /// Creates the queue. Called once, before any other function of `srcu`.
    ///
    /// Fails with [`ENOMEM`].
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The module init of the library calls this once. No other module can use the
        // library before it returns.
        unsafe { STATE.init() };
        let queue = Workqueue::for_library(c"kscale_srcu", Flags::UNBOUND, 0)?;
        STATE.lock().queue = Some(queue);
        // From here on, the drop of `this` destroys the queue on error.
        let this = Self(());
        add(None, None, self::queue(), GFP_KERNEL)?;
        Ok(this)
    }
}

impl Drop for Reaper {
    /// Waits for the last instructions of callbacks and of work items.
    fn drop(&mut self) {
        // `srcu_invoke_callbacks()` in `kernel/rcu/srcutree.c` calls them with softirqs disabled,
        // which is an RCU read-side critical section.
        synchronize_rcu();
        let queue = STATE.lock().queue.take();
        drop(queue);
        index::remove(|_| true);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_pending)]
mod tests {
    use super::*;

    use kernel::{
        impl_has_hr_timer,
        module::this_module,
        sync::{
            atomic::{
                Acquire,
                Release, //
            },
            ArcBorrow, //
        },
        time::{
            hrtimer::{
                HrTimer,
                HrTimerCallback,
                HrTimerCallbackContext,
                HrTimerPointer,
                HrTimerRestart,
                RelativeHardMode, //
            },
            Delta,
            Monotonic, //
        }, //
    };

    use crate::testing::lockdep;

    use super::super::testing::{
        nap,
        wait_for_callbacks,
        OtherTask, //
    };

    /// Stands for a destructor.
    fn here(_: NonNull<Header>) {}

    /// A module waits for values of its destructors, even if another module owns the pointer. It
    /// does not wait for values of other modules.
    #[test]
    fn values_of_foreign_pointers_count_for_the_caller() -> Result {
        let address = here as *const () as usize;
        // An equal function of another test may have the same address.
        index::remove(|it| it.address == Some(address));
        // This address is in no module.
        let foreign = of(1)?;
        // Without memory, all modules wait.
        let shared = ADD.fail(|| foreign.clone().of_caller(here));
        assert!(shared.address.is_none());
        // The library has no pointer of its own with this destructor.
        let pending = foreign.clone().of_caller(here);
        assert_eq!(pending.address, Some(address));
        assert!(Arc::ptr_eq(&foreign.of_caller(here), &pending));
        assert!(Arc::ptr_eq(&of(address)?, &pending));
        assert!(Arc::ptr_eq(&pending.clone().of_caller(here), &pending));

        for pending in [pending, shared] {
            pending.begin();
            let gone = OtherTask::start(wait_for_callbacks)?;
            for _ in 0..10 {
                nap();
            }
            assert!(!gone.is_done());
            pending.end();
            gone.wait();
        }
        Ok(())
    }

    /// Stands for a destructor.
    fn in_interrupt(_: NonNull<Header>) {}

    /// A search in an interrupt.
    #[pin_data]
    struct Search {
        #[pin]
        timer: HrTimer<Self>,
        pending: Arc<Pending>,
        /// The address of the count that was found, 0 for that without an address.
        found: Atomic<usize>,
        is_done: Atomic<bool>,
    }

    impl_has_hr_timer! {
        impl HasHrTimer<Self> for Search {
            mode: RelativeHardMode<Monotonic>, field: self.timer
        }
    }

    impl HrTimerCallback for Search {
        type Pointer<'a> = Arc<Self>;

        fn run(this: ArcBorrow<'_, Self>, _: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
            let pending = this.pending.clone().of_caller(in_interrupt);
            this.found.store(pending.address.unwrap_or(0), Relaxed);
            this.is_done.store(true, Release);
            HrTimerRestart::NoRestart
        }
    }

    /// Returns the address of the count that an interrupt gets for `in_interrupt`.
    fn find_in_interrupt(pending: Arc<Pending>) -> Result<usize> {
        let search = Arc::pin_init(
            pin_init!(Search {
                timer <- HrTimer::new(),
                pending,
                found: Atomic::new(0),
                is_done: Atomic::new(false),
            }),
            GFP_KERNEL,
        )?;
        let started = HrTimerPointer::start(search.clone(), Delta::from_millis(1));
        while !search.is_done.load(Acquire) {
            nap();
        }
        drop(started);
        Ok(search.found.load(Relaxed))
    }

    /// No memory is allocated in an interrupt.
    #[test]
    fn counts_are_found_in_interrupts() -> Result {
        let address = in_interrupt as *const () as usize;
        // An equal function of another test may have the same address.
        index::remove(|it| it.address == Some(address));
        // This address is in no module.
        let foreign = of(5)?;
        assert_eq!(find_in_interrupt(foreign.clone())?, 0);

        let own = foreign.clone().of_caller(in_interrupt);
        assert_eq!(own.address, Some(address));
        assert_eq!(Some(find_in_interrupt(foreign)?), own.address);
        Ok(())
    }

    /// Stands for a destructor.
    fn again(_: NonNull<Header>) {}

    /// A pointer may keep the count of an unloaded module that was loaded again at the same
    /// address.
    #[test]
    fn count_of_an_unloaded_module_is_not_reused() -> Result {
        let address = again as *const () as usize;
        let before = of(address)?;
        index::remove(|it| ptr::eq(it, &*before));

        let now = before.clone().of_caller(again);
        assert!(!Arc::ptr_eq(&now, &before));
        assert_eq!(now.address, Some(address));
        assert!(Arc::ptr_eq(&of(address)?, &now));
        assert!(Arc::ptr_eq(&now.clone().of_caller(again), &now));
        Ok(())
    }

    /// Tasks add and remove counts at the same time.
    #[test]
    fn counts_are_added_while_others_are_removed() -> Result {
        let churn = || {
            for _ in 0..20 {
                for address in 1000..1020 {
                    let _ = of(address);
                }
                index::remove(|it| matches!(it.address, Some(1000..1010)));
            }
        };
        let tasks = [OtherTask::start(churn)?, OtherTask::start(churn)?];
        // Each count that is not removed is added once.
        let kept = of(1019)?;
        for task in tasks {
            task.wait();
        }

        for address in 1000..1020 {
            let rcu = rcu::read_lock();
            let known = index::iter(&rcu).filter(|it| it.address == Some(address));
            assert_eq!(known.count(), usize::from(address >= 1010));
        }
        assert!(Arc::ptr_eq(&of(1019)?, &kept));
        index::remove(|it| matches!(it.address, Some(1000..1020)));
        Ok(())
    }

    /// Stands for a destructor.
    fn forgotten(_: NonNull<Header>) {}

    #[test]
    fn counts_are_removed_with_their_module() -> Result {
        let address = forgotten as *const () as usize;
        let own = of(address)?;
        // This address is in no module.
        let other = of(2)?;
        assert!(Arc::ptr_eq(&of(address)?, &own));

        forget_destructors(this_module::<crate::LocalModule>().as_ptr());

        assert!(own.is_forgotten.load(Relaxed) && !other.is_forgotten.load(Relaxed));
        assert!(!Arc::ptr_eq(&of(address)?, &own));
        assert!(Arc::ptr_eq(&of(2)?, &other));
        // The count without an address stays.
        let shared = index::find(None).ok_or(EINVAL)?;
        assert!(!shared.is_forgotten.load(Relaxed));
        Ok(())
    }

    #[test]
    fn module_does_not_wait_for_values_of_others() -> Result {
        // This address is in no module.
        let other = of(3)?;

        other.begin();
        wait_for_callbacks();
        other.end();
        Ok(())
    }

    /// A shrinker callback may create a pointer. Reclaim calls it in a task that allocates memory.
    #[test]
    fn counts_are_found_when_memory_is_short() -> Result {
        let was_active = lockdep::is_active();
        // Enough addresses for several allocations.
        for address in 100..200 {
            of(address)?;
        }

        let found = lockdep::in_reclaim(|| of(100));

        assert!(found.is_ok());
        assert_eq!(lockdep::is_active(), was_active);
        Ok(())
    }
}
