// SPDX-License-Identifier: GPL-2.0

//! The list of all queues, which are flushed when a module is unloaded.
//!
//! A dropped queue waits for its items. A leaked queue does not, and the exit function of a module
//! does not drop a queue of another module. So all queues are listed here, and those that may have
//! items of a module are flushed when it is unloaded. A queue that is dropped stays listed until it
//! has no items.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        global_lock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use core::{
    ops::Range,
    ptr::NonNull, //
};

use crate::{
    bindings,
    lib::stack::{
        Node,
        Stack, //
    },
    module::code, //
};

use super::going;

/// A listed queue.
struct Queue {
    id: u64,
    raw: NonNull<bindings::workqueue_struct>,
    /// From a `KBox`, which is freed with this value. The entry of the queue has the pointer, too.
    functions: NonNull<Functions>,
    /// The number of tasks that flush the queue. It is not destroyed before they have finished.
    flushes: usize,
}

// SAFETY: Any task may flush or destroy a queue.
unsafe impl Send for Queue {}

impl Queue {
    fn functions(&self) -> &Functions {
        // SAFETY: The value lives as long as `self`, and has no `&mut`.
        unsafe { self.functions.as_ref() }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: It came from a `KBox`. The entry of the queue is being dropped, or leaked and not
        // used again.
        drop(unsafe { KBox::from_raw(self.functions.as_ptr()) });
    }
}

/// The list of all queues.
pub(super) struct Queues {
    stack: Stack<Queue>,
    /// The id of the next queue. 64 bits do not overflow.
    next: u64,
}

global_lock! {
    // SAFETY: `init()` initialises it before any other module can use the library.
    pub(super) unsafe(uninit) static QUEUES: Mutex<Queues> = Queues {
        stack: Stack::new(),
        next: 0,
    };
}

/// Initialises the list of queues.
///
/// # Safety
///
/// The library must call this once, before any other module can use it.
pub(crate) unsafe fn init() {
    // SAFETY: By the safety requirements.
    unsafe { QUEUES.init() };
}

/// The range of the functions of all items that a queue has had.
///
/// So the unload of a module does not wait for the items of queues that only unrelated modules use.
/// If two modules use a queue, it may wait for their items: a module between them has addresses in
/// the range.
struct Functions {
    lowest: Atomic<usize>,
    highest: Atomic<usize>,
}

impl Functions {
    fn new() -> Self {
        Self {
            lowest: Atomic::new(usize::MAX),
            highest: Atomic::new(0),
        }
    }

    /// Adds a function. Must be called before an item with this function is queued.
    #[inline]
    fn add(&self, address: usize) {
        if address < self.lowest.load(Relaxed) || address > self.highest.load(Relaxed) {
            self.extend(address);
        }
    }

    #[cold]
    #[inline(never)]
    fn extend(&self, address: usize) {
        let rows = [
            (&self.lowest, usize::min as fn(usize, usize) -> usize),
            (&self.highest, usize::max),
        ];
        for (bound, choose) in rows {
            let mut known = bound.load(Relaxed);
            while let Err(other) = bound.cmpxchg(known, choose(known, address), Full) {
                known = other;
            }
        }
    }

    /// Returns whether functions may be in `code`.
    fn may_be_in(&self, code: &Range<usize>) -> bool {
        self.lowest.load(Relaxed) < code.end && self.highest.load(Relaxed) >= code.start
    }
}

/// A list entry: until it is dropped, the queue is flushed when modules are unloaded.
pub(super) struct ListEntry {
    id: u64,
    functions: NonNull<Functions>,
}

impl ListEntry {
    /// Lists a queue. The queue must not be destroyed before the entry is dropped.
    ///
    /// Fails with [`ENOMEM`].
    pub(super) fn new(raw: NonNull<bindings::workqueue_struct>) -> Result<Self> {
        let functions = KBox::new(Functions::new(), GFP_KERNEL)?;
        let functions = NonNull::from(KBox::leak(functions));
        let mut node = Node::new(Queue {
            id: 0,
            raw,
            functions,
            flushes: 0,
        })?;
        let mut queues = QUEUES.lock();

        let id = queues.next;
        queues.next = queues.next.wrapping_add(1);
        node.value.id = id;
        queues.stack.push(node);
        Ok(Self { id, functions })
    }

    /// Adds a function to those of the queue. Must be called before an item with it is queued.
    #[inline]
    pub(super) fn add_function(&self, address: usize) {
        // SAFETY: The queue is listed until `self` is dropped, or until the library is unloaded.
        unsafe { self.functions.as_ref() }.add(address);
    }

    /// Unlists the queue unless a task flushes it. Returns whether the queue is unlisted.
    fn try_unlist(&self) -> bool {
        let mut queues = QUEUES.lock();
        let is_used = queues
            .stack
            .find_mut(|queue| queue.id == self.id)
            .is_some_and(|queue| queue.flushes > 0);

        let node = if is_used {
            None
        } else {
            queues.stack.take(|queue| queue.id == self.id)
        };
        drop(queues);
        drop(node);
        !is_used
    }
}

impl Drop for ListEntry {
    /// Waits until no task flushes the queue. The queue must have no items: a module that is
    /// unloaded does not wait for the items of an unlisted queue.
    fn drop(&mut self) {
        while !self.try_unlist() {
            fsleep(Delta::from_millis(1));
        }
    }
}

/// Runs all items that are queued now and whose functions are in `code`.
///
/// Queues that are created meanwhile have no such items. They are not flushed, so that a task that
/// creates queues all the time does not delay this.
pub(super) fn flush_all(code: &Range<usize>) {
    let mut ids = 0..QUEUES.lock().next;

    while let Some((id, raw)) = begin_flush(&ids, code) {
        // SAFETY: The queue is not destroyed before `end_flush()`.
        unsafe { bindings::__flush_workqueue(raw.as_ptr()) };
        end_flush(id);
        ids.start = id.wrapping_add(1);
    }
}

/// Returns the first queue with one of the `ids` that may have had items whose functions are in
/// `code`, and pins it until [`end_flush()`].
fn begin_flush(
    ids: &Range<u64>,
    code: &Range<usize>,
) -> Option<(u64, NonNull<bindings::workqueue_struct>)> {
    let mut queues = QUEUES.lock();
    let listed = queues.stack.iter();
    let used = listed.filter(|queue| queue.functions().may_be_in(code));
    let used = used.map(|queue| queue.id);
    let id = used.filter(|id| ids.contains(id)).min()?;
    let queue = queues.stack.find_mut(|queue| queue.id == id)?;

    // OVERFLOW: There are fewer tasks than `usize::MAX`.
    queue.flushes = queue.flushes.wrapping_add(1);
    Some((id, queue.raw))
}

/// Unpins a queue.
fn end_flush(id: u64) {
    let mut queues = QUEUES.lock();
    if let Some(queue) = queues.stack.find_mut(|queue| queue.id == id) {
        // OVERFLOW: `begin_flush()` has incremented the count.
        queue.flushes = queue.flushes.wrapping_sub(1);
    }
}

/// Returns whether a module is linked against the library. Other modules have no items.
pub(crate) fn is_user(module: *mut bindings::module) -> bool {
    let library = kernel::module::this_module::<crate::LocalModule>().as_ptr();
    // SAFETY: Both modules are loaded: `module` is going but not freed, and `library` runs this
    // code.
    unsafe { bindings::module_uses(module, library) }
}

/// Runs all items of a going module.
///
/// Context: Process context. May sleep.
pub(crate) fn flush_for(module: *mut bindings::module) {
    if is_user(module) {
        // SAFETY: The module is going, so it is not freed.
        flush_all(&unsafe { code::code_of(module) });
    }
}

/// Destroys leaked queues, and frees what the unload of modules has allocated.
///
/// # Safety
///
/// All modules that use the library must be unloaded. No code of the library may use a queue any
/// more, except for its exit function.
///
/// Context: Process context. May sleep.
pub(crate) unsafe fn destroy_leaked() {
    loop {
        let Some(node) = QUEUES.lock().stack.take(|_| true) else {
            break;
        };
        // SAFETY: The queue has not been destroyed: destroying it unlists it first. It was leaked
        // by a module that is unloaded, so nothing queues to it.
        unsafe { bindings::destroy_workqueue(node.value.raw.as_ptr()) };
    }
    // SAFETY: By the safety requirements.
    unsafe { going::free_slots() };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_workqueue_queues)]
mod tests {
    use super::{
        super::{
            testing::{
                own_code,
                queue,
                Slow, //
            },
            Flags,
            Workqueue, //
        },
        *, //
    };

    use kernel::{
        impl_has_work,
        new_mutex,
        new_work,
        sync::{
            atomic::{
                Acquire,
                Release, //
            },
            Arc,
            Mutex, //
        },
        workqueue::{
            Work,
            WorkItem, //
        }, //
    };

    use crate::testing::task::OtherTask;

    /// Returns whether a queue is flushed when modules are unloaded.
    fn is_listed(queue: &Workqueue) -> bool {
        let queues = QUEUES.lock();
        let is_listed = queues.stack.iter().any(|it| it.raw == queue.raw);
        is_listed
    }

    #[test]
    fn queues_are_listed_until_drop() -> Result {
        let (first, second) = (queue()?, queue()?);
        let own = Workqueue::for_library(c"kscale_kunit", Flags::UNBOUND, 0)?;
        assert!(is_listed(&first) && is_listed(&second));
        assert!(!is_listed(&own));

        let raw = first.raw;
        drop(first);
        assert!(!QUEUES.lock().stack.iter().any(|it| it.raw == raw));
        assert!(is_listed(&second));
        Ok(())
    }

    #[test]
    fn all_queues_are_flushed() -> Result {
        let queues = [queue()?, queue()?, queue()?];
        let items = [Slow::new()?, Slow::new()?, Slow::new()?];
        for (queue, item) in queues.iter().zip(&items) {
            assert!(queue.enqueue(item.clone()).is_ok());
        }

        flush_all(&own_code());

        assert!(items.iter().all(|item| item.runs() == 1));
        Ok(())
    }

    #[test]
    fn a_queue_is_not_destroyed_while_it_is_flushed() -> Result {
        let queue = queue()?;
        let (id, raw) = (queue.list_entry.as_ref().ok_or(EINVAL)?.id, queue.raw);
        let (ids, code) = (id..id + 1, own_code());
        assert!(queue.enqueue(Slow::new()?).is_ok());
        let flushes = [begin_flush(&ids, &code), begin_flush(&ids, &code)];

        let destroyer = OtherTask::start(move || drop(queue))?;
        let mut was_there = true;
        for _ in flushes {
            for _ in 0..10 {
                fsleep(Delta::from_millis(1));
                was_there &= !destroyer.is_done();
            }
            end_flush(id);
        }
        destroyer.wait();

        assert!(was_there);
        assert!(flushes == [Some((id, raw)); 2]);
        assert!(begin_flush(&ids, &code).is_none());
        Ok(())
    }

    /// The unload of a module does not wait for items of others.
    #[test]
    fn queues_without_items_of_the_module_are_not_flushed() -> Result {
        let queue = queue()?;
        let id = queue.list_entry.as_ref().ok_or(EINVAL)?.id;
        let (ids, own) = (id..id + 1, own_code());
        let unused = begin_flush(&ids, &own);
        assert!(queue.enqueue(Slow::new()?).is_ok());
        let function =
            <Arc<Slow> as kernel::workqueue::WorkItemPointer<0>>::run as *const () as usize;

        // A range, whether the function is in it.
        let rows = [
            (own, true),
            (0..0, false),
            (0..function, false),
            (function..function + 1, true),
            (0..function + 1, true),
            (function + 1..usize::MAX, false),
        ];
        for (code, is_in) in rows {
            let found = begin_flush(&ids, &code);
            if found.is_some() {
                end_flush(id);
            }
            assert_eq!(found.is_some(), is_in);
        }
        assert!(unused.is_none());
        Ok(())
    }

    /// Creates a queue while its own queue is flushed. The item of the new queue runs until the
    /// flush has ended.
    #[pin_data]
    struct Creator {
        /// The new queue, and whether it has an item.
        #[pin]
        created: Mutex<Option<Workqueue>>,
        has_created: Atomic<bool>,
        is_flushed: Atomic<bool>,
        has_ended: Atomic<bool>,
        #[pin]
        creates: Work<Creator, 0>,
        #[pin]
        runs: Work<Creator, 1>,
    }

    impl_has_work! {
        impl HasWork<Self, 0> for Creator { self.creates }
        impl HasWork<Self, 1> for Creator { self.runs }
    }

    impl WorkItem<0> for Creator {
        type Pointer = Arc<Creator>;

        fn run(this: Arc<Creator>) {
            while !QUEUES.lock().stack.iter().any(|queue| queue.flushes > 0) {
                fsleep(Delta::from_millis(1));
            }
            if let Ok(queue) = queue() {
                let _ = queue.enqueue::<Arc<Creator>, 1>(this.clone());
                *this.created.lock() = Some(queue);
            }
            this.has_created.store(true, Release);
        }
    }

    impl WorkItem<1> for Creator {
        type Pointer = Arc<Creator>;

        fn run(this: Arc<Creator>) {
            const MAX_MS: u32 = 60_000;

            for _ in 0..MAX_MS {
                if this.is_flushed.load(Acquire) {
                    break;
                }
                fsleep(Delta::from_millis(1));
            }
            this.has_ended.store(true, Release);
        }
    }

    #[test]
    fn queues_that_are_created_during_a_flush_are_not_flushed() -> Result {
        let queue = queue()?;
        let item = Arc::pin_init(
            pin_init!(Creator {
                created <- new_mutex!(None),
                has_created: Atomic::new(false),
                is_flushed: Atomic::new(false),
                has_ended: Atomic::new(false),
                creates <- new_work!("kscale_workqueue_queues::creates"),
                runs <- new_work!("kscale_workqueue_queues::runs"),
            }),
            GFP_KERNEL,
        )?;
        assert!(queue.enqueue::<Arc<Creator>, 0>(item.clone()).is_ok());

        flush_all(&own_code());

        let (has_created, has_ended) =
            (item.has_created.load(Acquire), item.has_ended.load(Acquire));
        item.is_flushed.store(true, Release);
        let created = item.created.lock().take();
        assert!(created.is_some() && has_created);
        drop(created);
        assert!(!has_ended);
        assert!(item.has_ended.load(Acquire));
        Ok(())
    }
}
