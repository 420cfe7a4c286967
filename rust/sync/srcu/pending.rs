// SPDX-License-Identifier: GPL-2.0

//! Destructors that are still to run, by where their code is.
//!
//! A value that was left to `call_srcu()` or to a work queue is destroyed by code of the module
//! whose value it is. That must not be gone by then, also if the domain was leaked, or belongs to
//! another module. So values on their way are counted for every destructor, and a module that goes
//! is kept until those in it have no value left: see [`module`](crate::module::cleanup).
//!
//! C calls functions of this library only. They are done with the module's code when they count a
//! value off, and the library waits for their own last instructions when it goes.

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
    },
    time::{
        delay::fsleep,
        Delta, //
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

use counts::Counts;

/// How long a module waits before it says why.
const PATIENCE_MS: i64 = 10_000;

/// How long it waits until it looks again.
const INTERVAL_MS: i64 = 2;

/// What destroys a node with this header.
pub(super) type Destructor = unsafe fn(NonNull<Header>);

/// The values that are on their way and need one destructor.
///
/// The destructor of a type may be there several times, in all modules that use it. Values are
/// counted for the one that is called.
///
/// # Invariants
///
/// `queue` is [`State::queue`], which is destroyed when no value is on its way.
pub(super) struct Pending {
    /// The destructor. If it is [`None`], any module waits for them.
    address: Option<usize>,
    /// The module with the destructor has gone, and nobody waits for values here. Something else
    /// may be at `address`, also the same destructor, if the module was loaded again.
    is_forgotten: Atomic<bool>,
    /// What has no address, if this has.
    foreign: Option<Arc<Pending>>,
    counts: Counts,
    queue: *mut bindings::workqueue_struct,
}

// SAFETY: A work queue may be used by any task.
unsafe impl Send for Pending {}

// SAFETY: The counts are atomic, and the rest does not change.
unsafe impl Sync for Pending {}

impl Pending {
    /// Counts a value that starts on its way.
    #[inline]
    pub(super) fn begin(&self) {
        self.counts.begin();
    }

    /// Counts a value that was destroyed. The module with the code may go from here on.
    #[inline]
    pub(super) fn end(&self) {
        self.counts.end();
    }

    /// Returns where to count a value whose destructor is that of the module that calls.
    ///
    /// That is `self`, unless that is of another module, or of one that has gone. The right one has
    /// not been looked for then, as that takes locks and memory: all modules wait for such a value.
    #[inline]
    pub(super) fn of_caller(self: Arc<Self>, destructor: Destructor) -> Arc<Self> {
        // If another module has the address now, this is set: code of that module runs here, and it
        // was loaded after the other had gone.
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

    /// Notes that no module waits for what is counted here.
    fn forget(&self) {
        self.is_forgotten.store(true, Relaxed);
    }

    /// Tells whether the values need `module`, or `or` if they may need any.
    fn needs(&self, module: *const bindings::module, or: bool) -> bool {
        self.address.map_or(or, |address| {
            // SAFETY: `module` is loaded, or just going, and so not freed, when this is called.
            unsafe { bindings::within_module(address, module) }
        })
    }
}

/// What there is one of.
struct State {
    queue: Option<Workqueue>,
    /// First the one without an address. One for every other; those of a module go with it.
    pending: KVec<Arc<Pending>>,
}

global_lock! {
    // SAFETY: Initialised by `Reaper::new()`, which everything else in `srcu` comes after.
    unsafe(uninit) static STATE: Mutex<State> = State { queue: None, pending: KVec::new() };
}

impl State {
    fn queue(&self) -> *mut bindings::workqueue_struct {
        self.queue
            .as_ref()
            .map_or(ptr::null_mut(), Workqueue::as_raw)
    }

    /// Adds a count.
    fn add(
        &mut self,
        address: Option<usize>,
        foreign: Option<Arc<Pending>>,
    ) -> Result<Arc<Pending>> {
        // INVARIANT: `queue` is the queue, until the library goes.
        let pending = Arc::new(
            Pending {
                address,
                is_forgotten: Atomic::new(false),
                foreign,
                counts: Counts::new(),
                queue: self.queue(),
            },
            GFP_KERNEL,
        )?;
        self.pending.push(pending.clone(), GFP_KERNEL)?;
        Ok(pending)
    }
}

/// Returns the queue for what sleeps.
pub(super) fn queue() -> *mut bindings::workqueue_struct {
    STATE.lock().queue()
}

/// Returns the count of what needs the destructor at `address`.
///
/// Fails with [`ENOMEM`].
pub(super) fn of(address: usize) -> Result<Arc<Pending>> {
    let mut state = STATE.lock();
    let known = state.pending.iter().find(|it| it.address == Some(address));
    if let Some(known) = known {
        return Ok(known.clone());
    }
    let foreign = state.pending.first().cloned();
    state.add(Some(address), foreign)
}

/// Waits until all values are destroyed that need `module`.
///
/// To be called when the module is going, and its exit function has returned. Its code may still
/// retire values that were made before, until [`forget_destructors()`].
pub(crate) fn wait_for_callbacks(module: *mut bindings::module) {
    let count = || {
        let state = STATE.lock();
        Counts::left(|| {
            let own = state.pending.iter().filter(|it| it.needs(module, true));
            own.map(|it| &it.counts)
        })
    };
    let mut waited_ms = 0;

    loop {
        let count = count();
        if count == 0 {
            break;
        }
        if waited_ms == PATIENCE_MS {
            pr_err!("srcu: a module cannot go before {count} values are freed: leaked a guard?\n");
        }
        waited_ms += INTERVAL_MS;
        fsleep(Delta::from_millis(INTERVAL_MS));
    }
}

/// Forgets the counts of a module, none of whose code will run again.
///
/// Pointers and lists that the module created may still have them.
pub(crate) fn forget_destructors(module: *mut bindings::module) {
    STATE.lock().pending.retain(|it| {
        let is_forgotten = it.needs(module, false);
        if is_forgotten {
            it.forget();
        }
        !is_forgotten
    });
}

/// The queue for what sleeps, while it lives.
pub(crate) struct Reaper(());

impl Reaper {
    /// Creates the queue. To be called once, before anything else in `srcu`.
    ///
    /// Fails with [`ENOMEM`].
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The library's own module init calls this, once, and no other module can use the
        // library before it returned.
        unsafe { STATE.init() };
        let queue = Workqueue::for_library(c"kscale_srcu", Flags::UNBOUND, 0)?;
        STATE.lock().queue = Some(queue);
        // From here on it is taken back if this fails.
        let this = Self(());
        STATE.lock().add(None, None)?;
        Ok(this)
    }
}

impl Drop for Reaper {
    /// Waits for the last instructions of callbacks, and of work items.
    fn drop(&mut self) {
        // `srcu_invoke_callbacks()` in `kernel/rcu/srcutree.c` calls them with softirqs off, which
        // RCU waits for.
        synchronize_rcu();
        let queue = STATE.lock().queue.take();
        drop(queue);
        STATE.lock().pending = KVec::new();
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_pending)]
mod tests {
    use super::*;

    use kernel::module::this_module;

    use super::super::testing::{
        nap,
        Elsewhere, //
    };

    /// Stands for a destructor.
    fn here(_: NonNull<Header>) {}

    /// A module waits for what may need it, also if the pointer is of another.
    #[test]
    fn values_of_foreign_pointers_are_waited_for() -> Result {
        // In no module.
        let foreign = of(1)?;
        let own = of(here as *const () as usize)?;
        assert!(Arc::ptr_eq(&own.clone().of_caller(here), &own));
        let pending = foreign.clone().of_caller(here);
        assert!(!Arc::ptr_eq(&pending, &foreign));
        assert!(Arc::ptr_eq(&pending.clone().of_caller(here), &pending));
        pending.begin();

        let gone = Elsewhere::start(|| {
            wait_for_callbacks(this_module::<crate::LocalModule>().as_ptr());
        })?;
        for _ in 0..10 {
            nap();
        }
        assert!(!gone.is_done());
        pending.end();
        gone.wait();
        Ok(())
    }

    /// Stands for a destructor, too.
    fn again(_: NonNull<Header>) {}

    /// A pointer may have the count of a module that has gone and come back to the same address.
    #[test]
    fn a_count_is_not_used_after_its_module() -> Result {
        let address = again as *const () as usize;
        let before = of(address)?;
        before.forget();
        STATE.lock().pending.retain(|it| !Arc::ptr_eq(it, &before));

        let pending = before.clone().of_caller(again);
        // One that every module waits for.
        assert!(pending.address.is_none());
        let now = of(address)?;
        assert!(!Arc::ptr_eq(&now, &before));
        assert!(Arc::ptr_eq(&now.clone().of_caller(again), &now));
        Ok(())
    }

    /// Stands for a destructor, too.
    fn forgotten(_: NonNull<Header>) {}

    #[test]
    fn the_counts_of_a_module_go_with_it() -> Result {
        let address = forgotten as *const () as usize;
        let own = of(address)?;
        // In no module.
        let other = of(2)?;
        assert!(Arc::ptr_eq(&of(address)?, &own));

        forget_destructors(this_module::<crate::LocalModule>().as_ptr());

        assert!(own.is_forgotten.load(Relaxed) && !other.is_forgotten.load(Relaxed));
        assert!(!Arc::ptr_eq(&of(address)?, &own));
        assert!(Arc::ptr_eq(&of(2)?, &other));
        // What has no address stays, and is that of others.
        let pending = own.of_caller(forgotten);
        assert!(pending.address.is_none());
        assert!(!pending.is_forgotten.load(Relaxed));
        assert!(Arc::ptr_eq(&other.of_caller(forgotten), &pending));
        Ok(())
    }

    #[test]
    fn a_module_waits_for_no_value_of_others() -> Result {
        // In no module.
        let other = of(3)?;

        other.begin();
        wait_for_callbacks(this_module::<crate::LocalModule>().as_ptr());
        other.end();
        Ok(())
    }
}
