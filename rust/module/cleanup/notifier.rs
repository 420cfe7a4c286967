// SPDX-License-Identifier: GPL-2.0

//! The module notifier, which runs the records of a module that is going.

use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    module::this_module,
    prelude::*,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    block::dm,
    sync::{
        lock_class,
        srcu,
        workqueue, //
    }, //
};

use super::{
    stop_now,
    AddCounter,
    Record,
    Stage,
    RECORDS, //
};

/// Rounds in which a going module may add records, until its registrations are refused. A few, as
/// memory may get short meanwhile.
const MAX_RECORD_ROUNDS: u32 = 4;

/// Rounds in which a going module may pass values to SRCU, until its work items are no longer
/// queued.
const MAX_VALUE_ROUNDS: u32 = 100;

/// Rounds in which only items of a going module are left, or in which its registrations are
/// refused, until its work items are no longer queued.
const MAX_ITEM_ROUNDS: u32 = 30;

/// The time for which a going module may wait for values or references, until the log has a line.
const WARN_MS: i64 = 10_000;

/// Rounds in a row in which values are pending for [`DESTROY_MS`], until the work items of a going
/// module are no longer queued.
const MAX_PENDING_ROUNDS: u32 = 600;

/// The time in which most values are destroyed.
const DESTROY_MS: i64 = 100;

/// The polling interval of a waiting module.
const INTERVAL_MS: i64 = 2;

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
                unsafe { RECORDS.init() };
                // SAFETY: As above.
                unsafe { workqueue::init() };
                let block = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    // The records run code of the module. Other notifiers forget a module that is
                    // going: kprobes (`kprobe_module_nb`), jump labels, static calls and trace
                    // events.
                    priority: c_int::MAX,
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
            let module = module.cast();
            // No record, item or destructor is code of another module.
            if workqueue::is_user(module) {
                Self::run_records(module);
            }
            Self::forget(module);
        }
        // CAST: The constant is 0.
        bindings::NOTIFY_DONE as c_int
    }

    /// Runs the records of a going module. Waits for the module's last reference, and for its
    /// destructors of SRCU values.
    fn run_records(module: *mut bindings::module) {
        let counter = AddCounter::new(module);
        let mut pending = PendingValues::new(module);
        let mut references = Wait::new();
        // Counts items, and refuses them at last. A destructor that has started earlier may still
        // queue one that is neither counted nor refused: it may not have seen this.
        let mut going: Option<workqueue::Going> = None;
        let queued =
            |going: &Option<workqueue::Going>| going.as_ref().map(workqueue::Going::queued);
        let mut was_idle = false;
        let totals = |pending: &PendingValues| Totals {
            records: counter.added(),
            values: pending.begun(),
            refusals: counter.refused(),
        };
        let mut rounds = Rounds::new(totals(&pending));
        loop {
            let (added, begun, queued_before) = (counter.added(), pending.begun(), queued(&going));
            let had_records = Self::has_records(module);
            let has_added = || counter.added() != added;
            // Callbacks that have not been stopped yet, and items, may add records all the time. So
            // a round stops and releases those of its begin. The oldest is stopped first: a
            // callback is older than what it adds.
            let end = RECORDS.lock().next;
            let is_referenced = loop {
                let is_referenced = Self::is_referenced(module);
                // The data of a record may own a guard that a function of a bio, a work item, a
                // pending value or a callback of the next record waits for.
                if !is_referenced {
                    while Self::release_last(module, end) {}
                }
                if !Self::stop_first(module, end) {
                    break is_referenced;
                }
            };
            if references.becomes_long(is_referenced) {
                // SAFETY: The module is not freed before the notifiers have returned.
                let count = unsafe { bindings::module_refcount(module) };
                pr_err!("module unload waits for {count} references: open file, table?\n");
            }
            if !is_referenced {
                while !has_added() && Self::free_last(module) {}
            }
            // Their destructors may do all that those of records do.
            let had_refused = going.as_ref().is_some_and(workqueue::Going::drop_refused);
            let may_flush = !has_added() && !is_referenced;
            if may_flush {
                workqueue::flush_for(module);
            }
            let is_pending = pending.poll();
            // The functions, items and destructors that have run may have added records or given
            // values to other destructors. So the loop ends when neither was done meanwhile.
            // Records of other modules have no code of this one.
            let (has_added, has_begun) = (has_added(), pending.begun() != begun);
            let has_more = has_added || has_begun || had_records || Self::has_records(module);
            let has_refused =
                had_refused || going.as_ref().is_some_and(workqueue::Going::has_refused);
            // A task that is neither an item nor an interrupt may have queued an item after the
            // flush. Either an item waits for the task, or the task runs for a record. So if
            // nothing was left in two rounds, there is no such item: the second flush has waited
            // for those queued during the first.
            let has_only_items = may_flush && !is_pending && !has_more;
            let is_idle = has_only_items && !has_refused && queued(&going) == queued_before;
            if is_idle {
                if was_idle {
                    break;
                }
                was_idle = going.is_some();
                // Only work that queues itself again can be left. Flush again, and count it.
                going.get_or_insert_with(|| workqueue::Going::new(module));
                continue;
            }
            was_idle = false;
            if !is_referenced {
                // Work that always queues itself again may add a record or a value each time: stop
                // it, too. It may do so while this task sleeps.
                rounds.count(totals(&pending), has_only_items);
                if rounds.refuses_records() {
                    // Callbacks may add records all the time, too.
                    counter.close();
                }
                // A callback may wait for an item.
                // What an item owns may be what a value waits for.
                if rounds.refuses_items(pending.rounds) && !Self::has_callbacks(module) {
                    let going = going.get_or_insert_with(|| workqueue::Going::new(module));
                    going.refuse();
                }
            }
            fsleep(Delta::from_millis(INTERVAL_MS));
        }
    }

    /// Returns whether other code has references to a going module. It gets no new ones, so their
    /// number only decreases.
    pub(super) fn is_referenced(module: *mut bindings::module) -> bool {
        // Its init function drops the notifier if it fails, and the kernel has a reference
        // meanwhile. No other module uses the library when the notifier is dropped.
        if module == this_module::<crate::LocalModule>().as_ptr() {
            return false;
        }
        // A module whose parameters were refused has a reference until it is freed.
        //
        // SAFETY: The module is not freed before the notifiers have returned.
        unsafe { bindings::module_may_have_run(module) && bindings::module_refcount(module) > 0 }
    }

    /// Calls `stop` of the oldest active record of a module, if its number is less than `end`.
    /// Returns whether there was one.
    pub(super) fn stop_first(module: *mut bindings::module, end: u64) -> bool {
        let Some(id) = RECORDS.lock().first(module, Stage::Active, end) else {
            return false;
        };
        // If another task has stopped it meanwhile, this does nothing.
        stop_now(id);
        true
    }

    /// Calls `release` of the newest stopped record of a module with a number less than `end`, and
    /// returns whether there was one.
    ///
    /// Nothing may refer to the module.
    pub(super) fn release_last(module: *mut bindings::module, end: u64) -> bool {
        let mut records = RECORDS.lock();
        let first = records.first(module, Stage::Stopped, end);
        let record = first.and_then(|id| records.put_released(id));
        drop(records);
        let Some(record) = record else {
            return false;
        };

        // SAFETY: `stop` has returned, or `abandon()` was called, and the caller guarantees that
        // nothing refers to the module any more. The stage has changed, so `release` is called
        // once. Only the task that calls this also frees records that are released.
        unsafe { (record.release)(record.data) };
        true
    }

    /// Calls `free` of a released record of a module, and returns whether there was one.
    ///
    /// Nothing may refer to the module.
    pub(super) fn free_last(module: *mut bindings::module) -> bool {
        let Some(record) = Self::take_released(module) else {
            return false;
        };
        // SAFETY: `release` has returned, and the caller guarantees that nothing refers to the
        // module any more. The record was removed, so `free` is called once.
        unsafe { (record.free)(record.data) };
        true
    }

    /// Forgets the addresses of a module that the library has.
    fn forget(module: *mut bindings::module) {
        srcu::forget_destructors(module);
        lock_class::forget(module);
    }

    /// Returns whether callbacks of a module may run.
    fn has_callbacks(module: *mut bindings::module) -> bool {
        RECORDS.lock().has_callbacks(module)
    }

    /// Returns whether there are records of a module.
    pub(super) fn has_records(module: *mut bindings::module) -> bool {
        RECORDS.lock().has_any(module)
    }

    /// Removes the newest released record of a module. Those whose `free` waits come last.
    pub(super) fn take_released(module: *mut bindings::module) -> Option<Record> {
        let mut records = RECORDS.lock();
        [Stage::Released, Stage::ReleasedWaiting]
            .into_iter()
            .find_map(|stage| {
                let id = records.first(module, stage, u64::MAX)?;
                records.remove(id, stage)
            })
    }
}

/// Numbers of what a going module has done so far.
#[derive(Clone, Copy)]
struct Totals {
    /// Records that it has added.
    records: u64,
    /// Values that it has passed to its destructors.
    values: u64,
    /// Records that it was refused.
    refusals: u64,
}

/// Counts the rounds in which a going module does more, until it is refused.
struct Rounds {
    with_records: u32,
    with_values: u32,
    with_items: u32,
    /// At the end of the last round.
    last: Totals,
}

impl Rounds {
    fn new(last: Totals) -> Self {
        Self {
            with_records: 0,
            with_values: 0,
            with_items: 0,
            last,
        }
    }

    /// Counts a round. `now` is at its end. `has_only_items` is whether nothing but items can be
    /// left.
    fn count(&mut self, now: Totals, has_only_items: bool) {
        let count = |rounds: u32, is_one: bool| rounds.saturating_add(u32::from(is_one));
        self.with_records = count(self.with_records, now.records != self.last.records);
        self.with_values = count(self.with_values, now.values != self.last.values);
        let is_refused = now.refusals != self.last.refusals;
        self.with_items = count(self.with_items, has_only_items || is_refused);
        self.last = now;
    }

    /// Returns whether registrations are refused from now on.
    fn refuses_records(&self) -> bool {
        self.with_records >= MAX_RECORD_ROUNDS
    }

    /// Returns whether work items are refused from now on. `pending` is the number of rounds, in a
    /// row, in which values were pending.
    fn refuses_items(&self, pending: u32) -> bool {
        self.with_items >= MAX_ITEM_ROUNDS
            || self.with_values >= MAX_VALUE_ROUNDS
            || pending >= MAX_PENDING_ROUNDS
    }
}

/// A wait of a going module, of which the log has a line if it is long.
struct Wait {
    since: Option<Instant<Monotonic>>,
    has_warned: bool,
}

impl Wait {
    fn new() -> Self {
        Self {
            since: None,
            has_warned: false,
        }
    }

    /// Returns whether the wait is long by now, once. `is_waiting` is whether it goes on.
    fn becomes_long(&mut self, is_waiting: bool) -> bool {
        if !is_waiting {
            self.since = None;
            return false;
        }
        let since = self.since.get_or_insert_with(Instant::now);
        let is_first = !self.has_warned && since.elapsed().as_millis() >= WARN_MS;
        self.has_warned |= is_first;
        is_first
    }
}

/// The values that destructors of a going module have not destroyed yet.
struct PendingValues {
    module: *mut bindings::module,
    wait: Wait,
    /// The number of calls of `poll()`, in a row, that have waited in vain.
    rounds: u32,
}

impl PendingValues {
    fn new(module: *mut bindings::module) -> Self {
        Self {
            module,
            wait: Wait::new(),
            rounds: 0,
        }
    }

    /// Returns the number of values that the module has passed to its destructors so far.
    fn begun(&self) -> u64 {
        srcu::begun_values(self.module)
    }

    /// Returns whether values are pending. If they are for a long time, the log has a line.
    ///
    /// An item may pass a value on at the end of each long run. So this waits until these are
    /// destroyed: otherwise each call would find another one, as if one were pending all the time.
    /// If the module passes more values on meanwhile, it does not wait, and the round counts for
    /// these.
    fn poll(&mut self) -> bool {
        let (begin, begun) = (Instant::<Monotonic>::now(), self.begun());
        let count = loop {
            let count = srcu::pending_values(self.module);
            if count == 0 {
                self.rounds = 0;
                break count;
            }
            if self.begun() != begun {
                break count;
            }
            if begin.elapsed().as_millis() >= DESTROY_MS {
                self.rounds = self.rounds.saturating_add(1);
                break count;
            }
            fsleep(Delta::from_millis(INTERVAL_MS));
        };

        if self.wait.becomes_long(count != 0) {
            pr_err!("srcu: module unload waits for {count} values to be freed: leaked guard?\n");
        }
        count != 0
    }
}

#[pinned_drop]
impl PinnedDrop for Notifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `block` is registered by the type invariants.
        unsafe { bindings::unregister_module_notifier(self.block.get()) };
        // The library is unloaded last. The notifier is not called for the library itself any more.
        let library = this_module::<crate::LocalModule>().as_ptr();
        Self::run_records(library);
        Self::forget(library);
        // SAFETY: All other modules that use the library are unloaded, and it has run its own
        // items.
        unsafe { workqueue::destroy_leaked() };
        dm::synchronize_rcu_tasks();
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_module_notifier)]
mod tests {
    use super::*;

    use crate::sync::srcu::{
        new_domain,
        new_pointer,
        Domain,
        Item,
        Normal, //
    };

    /// Counts rounds of a module that does `more`, until it is refused by `is_over`, and returns
    /// their number.
    fn rounds_until(more: fn(&mut Totals) -> bool, is_over: fn(&Rounds) -> bool) -> u32 {
        let mut now = Totals {
            records: 1,
            values: 1,
            refusals: 1,
        };
        let mut rounds = Rounds::new(now);
        // A round without more does not count.
        rounds.count(now, false);
        for number in 1..=1000 {
            let has_only_items = more(&mut now);
            rounds.count(now, has_only_items);
            if is_over(&rounds) {
                return number;
            }
        }
        0
    }

    #[test]
    fn records_are_refused_after_a_few_rounds() {
        let more = |now: &mut Totals| {
            now.records += 3;
            false
        };

        assert_eq!(rounds_until(more, Rounds::refuses_records), 4);
        assert_eq!(rounds_until(more, |rounds| rounds.refuses_items(0)), 0);
    }

    #[test]
    fn items_are_refused_after_rounds_with_values() {
        let more = |now: &mut Totals| {
            now.values += 1;
            false
        };

        assert_eq!(rounds_until(more, |rounds| rounds.refuses_items(0)), 100);
        assert_eq!(rounds_until(more, Rounds::refuses_records), 0);
    }

    #[test]
    fn items_are_refused_after_rounds_with_nothing_else_or_with_refusals() {
        let refused = |now: &mut Totals| {
            now.refusals += 1;
            false
        };

        for more in [refused, |_: &mut Totals| true] {
            assert_eq!(rounds_until(more, |rounds| rounds.refuses_items(0)), 30);
            assert_eq!(rounds_until(more, Rounds::refuses_records), 0);
        }
    }

    #[test]
    fn items_are_refused_after_rounds_in_which_values_were_pending() {
        let is_over = |rounds: &Rounds| rounds.refuses_items(599);
        assert_eq!(rounds_until(|_| false, is_over), 0);
        let is_over = |rounds: &Rounds| rounds.refuses_items(600);
        assert_eq!(rounds_until(|_| false, is_over), 1);
    }

    /// An item of a going module may run for long, and pass a value on at the end of each run.
    #[test]
    fn values_that_are_destroyed_soon_are_not_pending_all_the_time() -> Result {
        let mut pending = PendingValues::new(this_module::<crate::LocalModule>().as_ptr());
        let domain: Domain<Normal> = new_domain!()?;
        let item = Item::new(0_u32, GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(new_pointer!(domain, item), GFP_KERNEL)?;
        // Not soon enough on a slow host, but one of them is.
        let is_destroyed = |value| -> Result<bool> {
            let item = Item::new(value, GFP_KERNEL)?;
            pointer.lock().replace(item).free_later();
            Ok(!pending.poll())
        };

        assert!((0..100).map(is_destroyed).any(|it| it == Ok(true)));
        Ok(())
    }

    #[test]
    fn a_value_is_pending_while_it_is_read() -> Result {
        let mut pending = PendingValues::new(this_module::<crate::LocalModule>().as_ptr());
        let domain: Domain<Normal> = new_domain!()?;
        let item = Item::new(0_u32, GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;

        let guard = domain.into_down_read();
        pointer
            .lock()
            .replace(Item::new(1, GFP_KERNEL)?)
            .free_later();
        for rounds in 1..4 {
            assert!(pending.poll() && pending.wait.since.is_some());
            assert_eq!(pending.rounds, rounds);
        }

        drop(guard);
        while pending.poll() {}
        assert!(pending.wait.since.is_none());
        assert_eq!(pending.rounds, 0);
        Ok(())
    }
}
