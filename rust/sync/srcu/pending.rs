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
    prelude::*,
    sync::{
        atomic::{
            self,
            Atomic,
            Relaxed, //
        },
        global_lock,
        rcu::synchronize_rcu,
        Arc, //
    }, //
};

use core::ptr::{
    self,
    NonNull, //
};

use crate::{
    bindings,
    lib::stack::{
        Node,
        Stack, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use super::item::Header;

mod counts;

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
    /// This is `self`, unless `self` belongs to another module or to an unloaded module. Then it is
    /// the count that all modules wait for: a search for the right count would take locks and
    /// allocate.
    #[inline]
    pub(super) fn of_caller(self: Arc<Self>, destructor: Destructor) -> Arc<Self> {
        // If another module has the address now, `is_forgotten` is set: code of that module runs
        // here, and that module was loaded after the first was unloaded.
        let is_own = self.address == Some(destructor as *const () as usize)
            && !self.is_forgotten.load(Relaxed);

        match &self.foreign {
            Some(foreign) if !is_own => foreign.clone(),
            _ => self,
        }
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

/// The global state.
///
/// Nothing is allocated while the lock is held: a shrinker callback may create a pointer and acquire
/// the lock during reclaim.
struct State {
    queue: Option<Workqueue>,
    /// One entry has no address. The others have one each, and are removed with their module.
    pending: Stack<Arc<Pending>>,
}

global_lock! {
    // SAFETY: `Reaper::new()` initialises it before any other function of `srcu` runs.
    unsafe(uninit) static STATE: Mutex<State> = State { queue: None, pending: Stack::new() };
}

impl State {
    fn queue(&self) -> *mut bindings::workqueue_struct {
        self.queue
            .as_ref()
            .map_or(ptr::null_mut(), Workqueue::as_raw)
    }

    /// Returns the count of `address`, if there is one.
    fn find(&self, address: Option<usize>) -> Option<Arc<Pending>> {
        let mut pending = self.pending.iter();
        pending.find(|it| it.address == address).cloned()
    }
}

/// Returns the count of `address`, and adds it if there is none.
fn add(address: Option<usize>) -> Result<Arc<Pending>> {
    let (queue, foreign) = {
        let state = STATE.lock();
        (state.queue(), state.find(None))
    };
    // INVARIANT: `queue` is the queue until the library exits.
    let pending = Arc::new(
        Pending {
            address,
            is_forgotten: Atomic::new(false),
            foreign,
            counts: Counts::new(),
            queue,
        },
        GFP_KERNEL,
    )?;
    let node = Node::new(pending.clone())?;

    let mut state = STATE.lock();
    if let Some(known) = state.find(address) {
        // Another task was faster. `node` is freed after the lock is released.
        drop(state);
        return Ok(known);
    }
    state.pending.push(node);
    Ok(pending)
}

/// Returns the queue for destructors that sleep.
pub(super) fn queue() -> *mut bindings::workqueue_struct {
    STATE.lock().queue()
}

/// Returns the count of the destructor at `address`.
///
/// Fails with [`ENOMEM`].
pub(super) fn of(address: usize) -> Result<Arc<Pending>> {
    let known = STATE.lock().find(Some(address));
    known.map_or_else(|| add(Some(address)), Ok)
}

/// Returns the number of values that need `module` and are not destroyed yet.
///
/// Called when the exit function of the going module has returned. Its code may still retire
/// earlier values, until [`forget_destructors()`].
pub(crate) fn pending_values(module: *mut bindings::module) -> u64 {
    let state = STATE.lock();
    Counts::left(|| {
        let own = state.pending.iter().filter(|it| it.needs(module, true));
        own.map(|it| &it.counts)
    })
}

/// Returns the number of values that destructors of `module` got so far.
pub(crate) fn begun_values(module: *mut bindings::module) -> u64 {
    let state = STATE.lock();
    let own = state.pending.iter().filter(|it| it.needs(module, false));
    own.fold(0, |sum, it| it.counts.begun().wrapping_add(sum))
}

/// Removes the counts of a module whose code does not run again.
///
/// Pointers and lists that the module created may still refer to them.
pub(crate) fn forget_destructors(module: *mut bindings::module) {
    loop {
        let node = STATE.lock().pending.take(|it| it.needs(module, false));
        let Some(node) = node else { break };
        node.value.forget();
    }
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
        add(None)?;
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
        // One entry at a time: the drop of the whole stack would recurse.
        while STATE.lock().pending.take(|_| true).is_some() {}
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_pending)]
mod tests {
    use super::*;

    use kernel::module::this_module;

    use crate::testing::lockdep;

    use super::super::testing::{
        nap,
        wait_for_callbacks,
        OtherTask, //
    };

    /// Stands for a destructor.
    fn here(_: NonNull<Header>) {}

    /// A module waits for values that may need it, even if another module owns the pointer.
    #[test]
    fn module_waits_for_values_of_foreign_pointers() -> Result {
        // This address is in no module.
        let foreign = of(1)?;
        let own = of(here as *const () as usize)?;
        assert!(Arc::ptr_eq(&own.clone().of_caller(here), &own));
        let pending = foreign.clone().of_caller(here);
        assert!(!Arc::ptr_eq(&pending, &foreign));
        assert!(Arc::ptr_eq(&pending.clone().of_caller(here), &pending));
        pending.begin();

        let gone = OtherTask::start(wait_for_callbacks)?;
        for _ in 0..10 {
            nap();
        }
        assert!(!gone.is_done());
        pending.end();
        gone.wait();
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
        before.forget();
        let taken = STATE.lock().pending.take(|it| Arc::ptr_eq(it, &before));
        assert!(taken.is_some());

        let pending = before.clone().of_caller(again);
        // The count that every module waits for.
        assert!(pending.address.is_none());
        let now = of(address)?;
        assert!(!Arc::ptr_eq(&now, &before));
        assert!(Arc::ptr_eq(&now.clone().of_caller(again), &now));
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
        // The count without an address stays, and all destructors share it.
        let pending = own.of_caller(forgotten);
        assert!(pending.address.is_none());
        assert!(!pending.is_forgotten.load(Relaxed));
        assert!(Arc::ptr_eq(&other.of_caller(forgotten), &pending));
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
