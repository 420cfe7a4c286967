// SPDX-License-Identifier: GPL-2.0

//! Walks: how tasks iterate over a list.

use kernel::{
    sync::rcu,
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    sync::lock_class::LockClass, //
};

use super::{
    list::List,
    node::{
        node_of,
        Node, //
    }, //
};

impl<T> List<T> {
    /// Calls `f` with each value.
    ///
    /// `f` is called exactly once for each value that stays on the list, and at most once for a
    /// value that is inserted or removed meanwhile.
    ///
    /// Context: Process context. May sleep if `f` sleeps. C: `shrink_slab()` in `mm/shrinker.c`.
    #[inline]
    pub fn for_each(&self, mut f: impl FnMut(&T)) {
        let head = self.head.get();
        let mut links = head;
        let mut rcu = rcu::read_lock();

        loop {
            // SAFETY: `links` is the head, or belongs to a node that was on the list when this RCU
            // read-side critical section began. A node stays on the list while it has references,
            // see the type invariants, and the reference was dropped only after that. So the next
            // node is not freed either.
            links = unsafe { bindings::list_next_rcu(links) };
            if links == head {
                break;
            }
            // SAFETY: By the type invariants of the list `links` is in a node.
            let node: *mut Node<T> = unsafe { node_of(links) };
            // SAFETY: The node was on the list in this RCU read-side critical section, so it is not
            // freed yet.
            if !unsafe { Node::try_get(node) } {
                continue;
            }
            drop(rcu);
            self.visits.begin();
            // SAFETY: This function owns a reference, so the value is present. Nothing writes to
            // it.
            f(unsafe { &(*node).value });
            self.visits.end();
            rcu = rcu::read_lock();
            // SAFETY: This function owns a reference.
            unsafe { Node::put(node) };
        }
        drop(rcu);
    }

    /// Returns a walk, which visits one value at a time. [`List::for_each()`] is cheaper.
    ///
    /// The walk visits each value that stays on the list exactly once, and a value that is inserted
    /// or removed meanwhile at most once.
    ///
    /// Context: Process context. Never sleeps.
    #[inline]
    pub fn walk(&self) -> Walk<'_, T> {
        // INVARIANT: The walk has no reference.
        Walk {
            list: self,
            at: None,
        }
    }
}

/// A walk, and its current value.
///
/// A leaked walk makes the removal of its current value wait forever.
///
/// # Invariants
///
/// If `at` is `Some`, the node is on the list, and the walk owns a reference to it.
pub struct Walk<'a, T> {
    list: &'a List<T>,
    /// The node of the current value, and the class of the lock that the task holds for lockdep.
    at: Option<(NonNull<Node<T>>, LockClass)>,
}

impl<T> Walk<'_, T> {
    /// Advances to the next value, and returns it.
    ///
    /// After it has returned [`None`], the walk restarts at the front.
    ///
    /// Context: Process context. Never sleeps. The caller may sleep between calls. C:
    /// `list_for_each_entry_rcu()` in `include/linux/rculist.h`, `refcount_inc_not_zero()` in
    /// `include/linux/refcount.h`.
    #[expect(
        clippy::should_implement_trait,
        reason = "the value goes when the walk goes on"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<&T> {
        let head = self.list.head.get();
        let rcu = rcu::read_lock();
        let mut links = match &self.at {
            // SAFETY: The node is allocated, as the walk owns a reference.
            Some((node, _)) => Opaque::cast_into(unsafe { &raw const (*node.as_ptr()).links }),
            None => head,
        };

        let next = loop {
            // SAFETY: `links` is the head, or belongs to a node that was on the list in this RCU
            // read-side critical section. The current node is on the list by the type invariants.
            links = unsafe { bindings::list_next_rcu(links) };
            if links == head {
                break None;
            }
            // SAFETY: By the type invariants of the list `links` is in a node.
            let node: *mut Node<T> = unsafe { node_of(links) };
            // SAFETY: The node was on the list in this RCU read-side critical section, so it is not
            // freed yet.
            if unsafe { Node::try_get(node) } {
                break NonNull::new(node);
            }
        };
        self.leave();
        drop(rcu);
        if next.is_some() {
            self.list.visits.begin();
        }
        // INVARIANT: The walk owns a reference. A node stays on the list while it has references.
        self.at = next.map(|node| (node, self.list.class()));
        // SAFETY: The walk owns a reference, so the value is present until the reference is
        // dropped. The drop borrows `self` mutably.
        next.map(|node| &**unsafe { &(*node.as_ptr()).value })
    }
}

impl<T> Walk<'_, T> {
    /// Drops the reference, if the walk has one.
    #[inline]
    fn leave(&mut self) {
        // The class is dropped last: it exists while the task is at a value.
        if let Some((node, _class)) = self.at.take() {
            self.list.visits.end();
            // SAFETY: By the type invariants the walk owns a reference.
            unsafe { Node::put(node.as_ptr()) };
        }
    }

    /// Leaks the walk like [`core::mem::forget()`], without the lockdep report when the task exits.
    #[cfg(kscale_kunit)]
    #[doc(hidden)]
    pub fn leak(mut self) {
        if self.at.take().is_some() {
            self.list.visits.end();
        }
        core::mem::forget(self);
    }
}

impl<T> Drop for Walk<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_rcu_list_walk)]
mod tests {
    use super::*;

    use super::super::{
        list::Entry,
        new_list, //
    };

    use kernel::{
        prelude::*,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    use crate::testing::task::OtherTask;

    /// Returns the numbers on a list, as decimal digits.
    fn digits(list: &List<u32>) -> u32 {
        let mut sum = 0;
        list.for_each(|digit| sum = 10 * sum + digit);
        sum
    }

    #[test]
    fn finished_walk_restarts() -> Result {
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        let _one = list.push_front(1, GFP_KERNEL)?;
        let mut walk = list.walk();

        for _ in 0..3 {
            assert_eq!(walk.next(), Some(&1));
            assert_eq!(walk.next(), None);
        }
        Ok(())
    }

    #[test]
    fn walks_and_removals_run_concurrently() -> Result {
        const ROUNDS: u32 = 200;
        let list = Arc::pin_init(new_list!(), GFP_KERNEL)?;
        let done = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let _stays = list.push_front(7, GFP_KERNEL)?;

        let (their_list, theirs) = (list.clone(), done.clone());
        let writer = OtherTask::start(move || {
            for _ in 0..ROUNDS {
                let removed = their_list
                    .push_front(1, GFP_KERNEL)
                    .is_ok_and(|entry| their_list.remove(entry).is_ok());
                theirs.add(u32::from(removed), Relaxed);
            }
        })?;
        while !writer.is_done() {
            for _ in 0..50 {
                assert!([7, 17].contains(&digits(&list)));
            }
            // Without preemption, no other task runs here unless this task sleeps.
            fsleep(Delta::from_millis(1));
        }
        assert_eq!(done.load(Relaxed), ROUNDS);
        assert_eq!(digits(&list), 7);
        Ok(())
    }

    /// Removes a value in another task, as lockdep reports a removal by a task that walks a list.
    fn remove_in_worker(list: &Arc<List<u32>>, entry: Entry<u32>) -> Result<u32> {
        let removed = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let (their_list, theirs) = (list.clone(), removed.clone());
        OtherTask::start(move || {
            theirs.store(their_list.remove(entry).unwrap_or(u32::MAX), Relaxed);
        })?
        .wait();
        Ok(removed.load(Relaxed))
    }

    #[test]
    fn walk_skips_removed_values() -> Result {
        let list = Arc::pin_init(new_list!(), GFP_KERNEL)?;
        let mut entries = KVec::new();
        for digit in (1..=5_u32).rev() {
            entries.push(list.push_front(digit, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let mut walk = list.walk();
        assert_eq!(walk.next(), Some(&1));
        assert_eq!(walk.next(), Some(&2));

        // The walk visits neither values inserted before its position nor removed values.
        let four = entries.remove(1).map_err(|_| EINVAL)?;
        assert_eq!(remove_in_worker(&list, four)?, 4);
        let _zero = list.push_front(9, GFP_KERNEL)?;
        assert_eq!(walk.next(), Some(&3));
        assert_eq!(walk.next(), Some(&5));
        assert_eq!(walk.next(), None);
        assert_eq!(digits(&list), 91_235);
        Ok(())
    }

    #[test]
    fn dropped_walk_releases_its_value() -> Result {
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        let entry = list.push_front(1, GFP_KERNEL)?;

        for _ in 0..3 {
            let mut walk = list.walk();
            assert_eq!(walk.next(), Some(&1));
        }
        list.for_each(|value| assert_eq!(*value, 1));
        // Otherwise this waits forever.
        assert_eq!(list.remove(entry).ok(), Some(1));
        assert_eq!(digits(&list), 0);
        Ok(())
    }

    #[test]
    fn many_walks_run_concurrently() -> Result {
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        let entry = list.push_front(1, GFP_KERNEL)?;
        let mut walks = [list.walk(), list.walk(), list.walk()];

        for walk in &mut walks {
            assert_eq!(walk.next(), Some(&1));
        }
        for walk in &mut walks {
            assert_eq!(walk.next(), None);
        }
        assert_eq!(list.remove(entry).ok(), Some(1));
        Ok(())
    }
}
