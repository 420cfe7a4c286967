// SPDX-License-Identifier: GPL-2.0

//! Sorting of lists without memory or locks.

/// An element of a list, which owns those behind it.
pub(super) trait Node: Sized {
    /// Returns what the list is sorted by.
    fn key(&self) -> u64;

    /// Returns the elements behind this one.
    fn next(&mut self) -> &mut Option<Self>;
}

/// Run `n` has `2^n` elements, or none; the last may have more.
const MAX_RUNS: usize = 16;

/// Sorts a list by key. Of those with the same key, who was behind comes first.
///
/// So a stack, which has the newest element in front, is sorted by key and then by age. This is a
/// merge sort that goes through the list once, as `list_sort()` in `lib/list_sort.c`.
pub(super) fn sort_stack<N: Node>(mut list: Option<N>) -> Option<N> {
    // What is in run `n` was in front of what is in run `n - 1`.
    let mut runs: [Option<N>; MAX_RUNS] = [const { None }; MAX_RUNS];

    while let Some(mut node) = list {
        list = node.next().take();

        let mut run = Some(node);
        for (n, slot) in runs.iter_mut().enumerate() {
            let is_free = slot.is_none();
            run = merge(run, slot.take());
            if is_free || n == MAX_RUNS - 1 {
                *slot = run.take();
                break;
            }
        }
    }
    runs.into_iter().fold(None, merge)
}

/// Merges two sorted lists. Of elements with the same key, those of `first` come first.
fn merge<N: Node>(mut first: Option<N>, mut second: Option<N>) -> Option<N> {
    let mut merged = None;
    let mut end = &mut merged;

    while let (Some(a), Some(b)) = (&first, &second) {
        let from = if b.key() < a.key() {
            &mut second
        } else {
            &mut first
        };
        let Some(mut node) = from.take() else { break };
        *from = node.next().take();
        end = end.insert(node).next();
    }
    *end = first.or(second);
    merged
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_dm_sort)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    struct Numbered {
        key: u64,
        age: usize,
        next: Option<KBox<Numbered>>,
    }

    impl Node for KBox<Numbered> {
        fn key(&self) -> u64 {
            self.key
        }

        fn next(&mut self) -> &mut Option<Self> {
            &mut self.next
        }
    }

    /// Pushes the keys in their order, and returns those of the sorted stack, with their ages.
    fn sorted(keys: impl Iterator<Item = u64>) -> Result<KVVec<(u64, usize)>> {
        let mut stack = None;
        for (age, key) in keys.enumerate() {
            let next = stack.take();
            stack = Some(KBox::new(Numbered { key, age, next }, GFP_KERNEL)?);
        }

        let mut seen = KVVec::new();
        let mut list = sort_stack(stack);
        while let Some(mut node) = list {
            seen.push((node.key, node.age), GFP_KERNEL)?;
            list = node.next.take();
        }
        Ok(seen)
    }

    #[test]
    fn keys_are_sorted_and_then_ages() -> Result {
        assert_eq!(sorted([].into_iter())?.len(), 0);
        assert_eq!(sorted([7].into_iter())?[..], [(7, 0)]);
        assert_eq!(
            sorted([3, 1, 2, 1, 3].into_iter())?[..],
            [(1, 1), (1, 3), (2, 2), (3, 0), (3, 4)]
        );
        assert_eq!(
            sorted([u64::MAX, 0].into_iter())?[..],
            [(0, 1), (u64::MAX, 0)]
        );
        Ok(())
    }

    #[test]
    fn nothing_is_lost_of_long_lists() -> Result {
        // With the last, each run is full, and one element is too many.
        for len in [2, 3, 31, 32, 33, 1000, 1 << MAX_RUNS] {
            // Many of the keys are there twice.
            let seen = sorted((0..len).map(|n| n * 7919 % (len / 2 + 1)))?;
            assert_eq!(seen.len() as u64, len);
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
        Ok(())
    }
}
