// SPDX-License-Identifier: GPL-2.0

//! Values that are noted under a lock, in memory that was allocated before it was taken.
//!
//! So reclaim may take the lock, too.

use kernel::prelude::*;

/// A value, and what is below it.
pub(crate) struct Node<T> {
    pub(crate) value: T,
    next: Option<KBox<Node<T>>>,
}

impl<T> Node<T> {
    /// Allocates memory for a value.
    ///
    /// Context: process. May sleep, and free memory.
    pub(crate) fn new(value: T) -> Result<KBox<Self>> {
        Ok(KBox::new(Self { value, next: None }, GFP_KERNEL)?)
    }
}

/// Values, of which the last that was pushed is found first.
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

    /// Returns the first value that is fit.
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

    /// Removes the first value that is fit.
    pub(crate) fn take(&mut self, is_fit: impl Fn(&T) -> bool) -> Option<KBox<Node<T>>> {
        let mut link = &mut self.first;

        while !is_fit(&link.as_ref()?.value) {
            link = &mut link.as_mut()?.next;
        }
        let mut node = link.take()?;
        *link = node.next.take();
        Some(node)
    }

    /// Returns all values.
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

    /// The numbers in a stack, as digits.
    fn digits(stack: &Stack<u32>) -> u32 {
        stack.iter().fold(0, |sum, digit| 10 * sum + digit)
    }

    #[test]
    fn the_last_is_found_first() -> Result {
        let mut stack = Stack::new();
        for digit in 1..=5 {
            stack.push(Node::new(digit)?);
        }
        assert_eq!(digits(&stack), 54_321);

        // What is taken, what is left.
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
