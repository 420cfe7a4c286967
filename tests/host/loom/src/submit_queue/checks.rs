// SPDX-License-Identifier: GPL-2.0

//! The guarantees of the list, in every interleaving of a few calls, with a worker as in
//! `SortedSubmitQueue`.
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
            Ordering::{
                AcqRel,
                Relaxed, //
            }, //
        },
        Arc, //
    }, //
};

/// The maximum number of bios.
const BIOS: usize = 4;

/// A bio of the model. Its memory stays valid until the model ends, so that errors are detected.
struct Bio {
    /// The per-bio data of the target, which the worker reads.
    content: UnsafeCell<u32>,
    behind: UnsafeCell<Option<NonNull<Bio>>>,
    sent: AtomicU32,
}

// SAFETY: The checker detects concurrent accesses to the cells.
unsafe impl Send for Bio {}

// SAFETY: As above.
unsafe impl Sync for Bio {}

/// A queue and its target. The checker does not track the counts.
struct Queue {
    list: Llist<Bio>,
    /// `WORK_STRUCT_PENDING_BIT` of the work item.
    is_pending: AtomicBool,
    /// The target and the queue are freed when the last bio has ended.
    has_gone: UnsafeCell<bool>,
    bios: [Bio; BIOS],
    /// The number of bios that have not ended.
    left: AtomicU32,
    /// Whether the first bio is pushed again after it was sent.
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

    /// Must be called at each use of the queue.
    fn is_used(&self) {
        // SAFETY: Nothing writes before the last bio has ended.
        let has_gone = self.has_gone.with(|has_gone| unsafe { *has_gone });
        assert!(!has_gone, "used after it has gone");
    }

    /// As `SortedSubmitQueue::push()`.
    fn push(&self, number: usize) {
        let bio = &self.bios[number];
        // SAFETY: The caller owns the bio.
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

    /// As `queue_work()` and the worker that it starts. In the model the caller is the worker, and
    /// does nothing else until the work is done.
    fn queue_work(&self) {
        // An atomic test-and-set is fully ordered, as in C.
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

    /// As `SortedSubmitQueue::run()`.
    fn send(&self) {
        let mut next = self.list.del_all();
        let mut again = false;

        while let Some(bio) = next {
            // SAFETY: All bios live as long as `self`.
            let bio = unsafe { &*bio.as_ptr() };
            // SAFETY: The worker owns it. If not, the checker detects that.
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
        // Device mapper waits until no bio is left, with barriers on both sides: the drop of the target
        // happens after all bios have ended (`dm_wait_for_bios_completion()` in `drivers/md/dm.c`).
        if self.left.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: Nothing uses the queue any more. If not, the checker detects that.
            self.has_gone
                .with_mut(|has_gone| unsafe { *has_gone = true });
        }
    }
}

/// Runs `threads` at the same time on a queue, which must then have sent that number of bios.
fn explore<const N: usize>(bios: u32, threads: [fn(&Queue); N]) {
    explore_again(bios, false, threads);
}

/// As `run()`, but the first bio may be pushed again.
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

/// Only one caller gets the result that the list was empty, until the list is taken.
fn all_bios_are_sent() {
    explore(3, [push::<0>, push_two::<1, 2>]);
    explore(3, [push::<0>, push::<1>, push::<2>]);
}

/// The worker sees the writes to all bios, not only to the last one.
fn bios_carry_what_was_done_with_them() {
    explore(2, [push::<0>, push::<1>]);
    explore(3, [push::<0>, push::<1>, push::<2>]);
}

fn no_bio_is_sent_twice() {
    explore(4, [push_two::<0, 1>, push_two::<2, 3>]);
}

/// ABA: a bio is at the head again after it was elsewhere. Another task that pushes a bio before it
/// may use the old head.
fn a_bio_may_come_again() {
    explore_again(3, true, [push::<0>, push_two::<1, 2>]);
}

/// A task that need not queue the worker must not use the queue after its push.
fn no_queue_is_touched_that_has_gone() {
    explore(2, [push::<0>, push::<1>]);
}

/// All checks, with their names.
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
