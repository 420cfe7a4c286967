// SPDX-License-Identifier: GPL-2.0

//! What the list promises, in every interleaving of a few calls, with a worker as `SendQueue` has it.
//!
//! Included next to each `llist` module, the right one and the mutants.

use super::llist::Llist;

use loom::{
    cell::UnsafeCell,
    sync::atomic::{
        fence,
        AtomicBool,
        Ordering::SeqCst, //
    },
    thread, //
};

use std::{
    ptr::{
        self,
        NonNull, //
    },
    sync::{
        atomic::{
            AtomicU32,
            Ordering::Relaxed, //
        },
        Arc, //
    },
};

/// How many bios there are at most.
const BIOS: usize = 4;

/// A bio of the model. Its memory stays until the model ends, so that a fault can be told.
struct Bio {
    /// What the target has in it, which the worker sees.
    content: UnsafeCell<u32>,
    behind: UnsafeCell<Option<NonNull<Bio>>>,
    sent: AtomicU32,
}

// SAFETY: The checker sees who touches the cells at a time.
unsafe impl Send for Bio {}

// SAFETY: As above.
unsafe impl Sync for Bio {}

/// A queue, and the target that it is of. The checker does not see the counts.
struct Queue {
    list: Llist<Bio>,
    /// `WORK_STRUCT_PENDING_BIT` of the work item.
    is_pending: AtomicBool,
    /// The target and the queue go when the last bio has ended.
    has_gone: UnsafeCell<bool>,
    bios: [Bio; BIOS],
    /// Bios that are not ended yet.
    left: AtomicU32,
    /// Whether the first bio comes again when it was sent.
    again: bool,
}

impl Queue {
    fn new(bios: u32, again: bool) -> Arc<Self> {
        Arc::new(Self {
            list: Llist::new(),
            is_pending: AtomicBool::new(false),
            has_gone: UnsafeCell::new(false),
            bios: [const { () }; BIOS].map(|()| Bio {
                content: UnsafeCell::new(0),
                behind: UnsafeCell::new(None),
                sent: AtomicU32::new(0),
            }),
            left: AtomicU32::new(bios),
            again,
        })
    }

    /// To be called wherever the queue itself is used.
    fn is_used(&self) {
        // SAFETY: Nobody writes before the last bio has ended.
        let has_gone = self.has_gone.with(|has_gone| unsafe { *has_gone });
        assert!(!has_gone, "used after it has gone");
    }

    /// As `SendQueue::push()`.
    fn push(&self, number: usize) {
        let bio = &self.bios[number];
        // SAFETY: The caller has the bio.
        bio.content.with_mut(|content| unsafe { *content += 1 });
        self.is_used();
        let was_empty = self.list.add(NonNull::from(bio), |behind| {
            // SAFETY: As above.
            bio.behind.with_mut(|it| unsafe { *it = behind });
        });
        if was_empty {
            self.is_used();
            self.queue_work();
        }
    }

    /// As `queue_work()`, and then the worker, which has it run: others may do so meanwhile. It is the
    /// caller in the model, which does nothing else until it is done.
    fn queue_work(&self) {
        // A bit that is tested and set orders everything, as C's does.
        fence(SeqCst);
        let was_pending = self.is_pending.swap(true, SeqCst);
        fence(SeqCst);
        if was_pending {
            return;
        }
        // See `set_work_pool_and_clear_pending()`.
        fence(SeqCst);
        self.is_pending.store(false, SeqCst);
        fence(SeqCst);
        self.send();
    }

    /// As `SendQueue::run()`.
    fn send(&self) {
        let mut next = self.list.del_all();
        let mut again = false;

        while let Some(bio) = next {
            // SAFETY: All bios live as long as `self`.
            let bio = unsafe { &*bio.as_ptr() };
            // SAFETY: Who has it is the worker. If not, the checker sees it.
            next = bio.behind.with_mut(|behind| unsafe { (*behind).take() });
            // SAFETY: As above.
            let content = bio.content.with(|content| unsafe { *content });
            let sent = bio.sent.fetch_add(1, Relaxed) + 1;
            assert_eq!(content, sent, "a bio was sent twice");
            if self.again && sent == 1 && ptr::eq(bio, &self.bios[0]) {
                again = true;
            } else {
                self.end();
            }
        }
        if again {
            self.push(0);
        }
    }

    /// Ends a bio.
    fn end(&self) {
        if self.left.fetch_sub(1, Relaxed) == 1 {
            // SAFETY: Nobody uses the queue any more. If not, the checker sees it.
            self.has_gone
                .with_mut(|has_gone| unsafe { *has_gone = true });
        }
    }
}

/// Runs these at the same time, on a queue that must then have sent as many bios.
fn explore<const N: usize>(bios: u32, threads: [fn(&Queue); N]) {
    explore_again(bios, false, threads);
}

/// The same; the first bio may come again.
fn explore_again<const N: usize>(bios: u32, again: bool, threads: [fn(&Queue); N]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let queue = Queue::new(bios, again);
        let (mine, others) = threads.split_first().unwrap();
        let start = |&other: &fn(&Queue)| {
            let queue = queue.clone();
            thread::spawn(move || other(&queue))
        };
        let others: Vec<_> = others.iter().map(start).collect();
        mine(&queue);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(queue.left.load(Relaxed), 0, "a bio waits for ever");
    });
}

fn push<const BIO: usize>(queue: &Queue) {
    queue.push(BIO);
}

fn push_two<const FIRST: usize, const SECOND: usize>(queue: &Queue) {
    queue.push(FIRST);
    queue.push(SECOND);
}

/// Whoever is told that the list was empty, somebody is, until it is taken.
fn all_bios_are_sent() {
    explore(3, [push::<0>, push_two::<1, 2>]);
    explore(3, [push::<0>, push::<1>, push::<2>]);
}

/// The worker sees what was done with any of them, and not only with the last.
fn bios_carry_what_was_done_with_them() {
    explore(2, [push::<0>, push::<1>]);
    explore(3, [push::<0>, push::<1>, push::<2>]);
}

fn no_bio_is_sent_twice() {
    explore(4, [push_two::<0, 1>, push_two::<2, 3>]);
}

/// A bio is there again in front, and others have seen it there before: when it is behind theirs, they
/// need not know that it was elsewhere.
fn a_bio_may_come_again() {
    explore_again(3, true, [push::<0>, push_two::<1, 2>]);
}

/// Who was not told to have the worker run does not know whether there still is a queue.
fn no_queue_is_touched_that_has_gone() {
    explore(2, [push::<0>, push::<1>]);
}

/// Every check and its name.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("all_bios_are_sent", all_bios_are_sent),
    (
        "bios_carry_what_was_done_with_them",
        bios_carry_what_was_done_with_them,
    ),
    ("no_bio_is_sent_twice", no_bio_is_sent_twice),
    ("a_bio_may_come_again", a_bio_may_come_again),
    (
        "no_queue_is_touched_that_has_gone",
        no_queue_is_touched_that_has_gone,
    ),
];
