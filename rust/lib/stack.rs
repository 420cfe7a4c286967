// SPDX-License-Identifier: GPL-2.0

//! A LIFO of values. Nodes are allocated before the lock of the stack is taken.
//!
//! So reclaim may take the lock.

use kernel::prelude::*;

/// A value, and the link to the next older one.
pub(crate) struct Node<T> {
    pub(crate) value: T,
    next: Option<KBox<Node<T>>>,
}

impl<T> Node<T> {
    /// Allocates a node for a value.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn new(value: T) -> Result<KBox<Self>> {
        Ok(KBox::new(Self { value, next: None }, GFP_KERNEL)?)
    }
}

/// A LIFO of values.
pub(crate) struct Stack<T> {
    first: Option<KBox<Node<T>>>,
}

impl<T> Stack<T> {
    pub(crate) const fn new() -> Self {
        Self { first: None }
    }

    /// Adds a value.
    pub(crate) fn push(&mut self, mut node: KBox<Node<T>>) {
        node.next = self.first.take();
        self.first = Some(node);
    }

    /// Returns the newest value that `is_fit`.
    pub(crate) fn find_mut(&mut self, is_fit: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut link = &mut self.first;

        while let Some(node) = link {
            if is_fit(&node.value) {
                return Some(&mut node.value);
            }
            link = &mut node.next;
        }
        None
    }

    /// Removes the newest value that `is_fit`.
    pub(crate) fn take(&mut self, is_fit: impl Fn(&T) -> bool) -> Option<KBox<Node<T>>> {
        let mut link = &mut self.first;

        while !is_fit(&link.as_ref()?.value) {
            link = &mut link.as_mut()?.next;
        }
        let mut node = link.take()?;
        *link = node.next.take();
        Some(node)
    }

    /// Returns all values, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut link = &self.first;

        core::iter::from_fn(move || {
            let node = link.as_ref()?;
            link = &node.next;
            Some(&node.value)
        })
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_stack)]
mod tests {
    use super::*;

    /// The values in a stack as decimal digits.
    fn digits(stack: &Stack<u32>) -> u32 {
        stack.iter().fold(0, |sum, digit| 10 * sum + digit)
    }

    #[test]
    fn find_returns_the_newest_entry() -> Result {
        let mut stack = Stack::new();
        for digit in 1..=5 {
            stack.push(Node::new(digit)?);
        }
        assert_eq!(digits(&stack), 54_321);

        // Bound, value that is removed, values that are left.
        for (below, taken, left) in [(9, 5, 4321), (3, 2, 431), (2, 1, 43), (9, 4, 3)] {
            let node = stack.take(|digit| *digit < below);
            assert_eq!(node.map(|node| node.value), Some(taken));
            assert_eq!(digits(&stack), left);
        }
        assert!(stack.take(|digit| *digit > 3).is_none());
        assert_eq!(stack.find_mut(|digit| *digit > 3), None);
        if let Some(digit) = stack.find_mut(|digit| *digit == 3) {
            *digit = 7;
        }
        assert_eq!(digits(&stack), 7);
        Ok(())
    }
}
