// SPDX-License-Identifier: GPL-2.0

//! Sorting of lists without allocation or locks.

/// A list element, which owns its successors.
pub(super) trait Node: Sized {
    /// Returns the sort key.
    fn key(&self) -> u64;

    /// Returns the successor.
    fn next(&mut self) -> &mut Option<Self>;
}

/// Run `n` has `2^n` elements or is empty; the last run may have more.
const MAX_RUNS: usize = 16;

/// Sorts a list by key. Equal keys are returned in FIFO order (the input is a LIFO).
///
/// A merge sort in one pass over the list, as `list_sort()` in `lib/list_sort.c`.
pub(super) fn sort_stack<N: Node>(mut list: Option<N>) -> Option<N> {
    // The elements of run `n` were in front of those of run `n - 1`.
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

/// Merges two sorted lists. Of equal keys, elements of `first` come before those of `second`.
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

    /// Pushes the keys in order, and returns the keys and ages of the sorted stack.
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
    fn sort_is_stable() -> Result {
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
    fn long_lists_keep_all_nodes() -> Result {
        // This length exceeds the capacity of the runs by one element. Miri takes minutes for it,
        // and a kernel with KASAN takes seconds.
        let longest = if cfg!(any(miri, CONFIG_KASAN)) {
            1000
        } else {
            1 << MAX_RUNS
        };
        for len in [2, 3, 31, 32, 33, 1000, longest] {
            // Many keys occur twice.
            let seen = sorted((0..len).map(|n| n * 7919 % (len / 2 + 1)))?;
            assert_eq!(seen.len() as u64, len);
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
        Ok(())
    }
}
