// SPDX-License-Identifier: GPL-2.0

//! The guarantees for readers and writers of an address, in every interleaving of a few calls.
//!
//! Included next to each `current` module: the right one, and the mutants.

use super::current::Current;

use loom::{
    cell::UnsafeCell,
    thread, //
};

use std::{
    ptr::NonNull,
    sync::Arc, //
};

/// The node behind the address.
struct Node(UnsafeCell<u32>);

/// Nodes, and the address of the current one.
struct Nodes {
    nodes: [Node; 3],
    current: Current<Node>,
}

// SAFETY: The checker detects concurrent accesses to the nodes.
unsafe impl Send for Nodes {}

// SAFETY: As above.
unsafe impl Sync for Nodes {}

impl Nodes {
    /// Creates nodes. The first one is current.
    fn new() -> Arc<Self> {
        Arc::new_cyclic(|this: &std::sync::Weak<Self>| {
            // SAFETY: It is the address of a field in allocated memory.
            let first = unsafe { &raw const (*this.as_ptr()).nodes[0] };
            Self {
                nodes: [0; 3].map(|number| Node(UnsafeCell::new(number))),
                current: Current::new(NonNull::new(first.cast_mut()).unwrap()),
            }
        })
    }

    /// Writes to a node, and makes it current. Returns the content of the previous node.
    fn replace(&self, index: usize) -> u32 {
        let node = &self.nodes[index];
        // SAFETY: No other task has it. If not, the checker detects that.
        node.0.with_mut(|number| unsafe { *number = index as u32 });
        Self::number(self.current.replace(NonNull::from(node)))
    }

    /// Returns the content of the current node.
    fn read(&self) -> u32 {
        Self::number(self.current.load())
    }

    fn number(node: NonNull<Node>) -> u32 {
        // SAFETY: Nodes stay valid until the model ends.
        let node = unsafe { node.as_ref() };
        // SAFETY: Nothing writes to a current node. If not, the checker detects that.
        node.0.with(|number| unsafe { *number })
    }
}

/// A reader of the address sees all writes to the node from before the address was set.
fn readers_see_what_was_written() {
    loom::model(|| {
        let nodes = Nodes::new();
        let theirs = nodes.clone();
        let writer = thread::spawn(move || theirs.replace(1));
        assert!([0, 1].contains(&nodes.read()), "there is no such node");
        assert_eq!(writer.join().unwrap(), 0, "another was there before");
        assert_eq!(nodes.read(), 1, "it is not found");
    });
}

/// Of two tasks that replace the node, each removes a different one.
fn each_node_is_taken_away_once() {
    loom::model(|| {
        let nodes = Nodes::new();
        let theirs = nodes.clone();
        let writer = thread::spawn(move || theirs.replace(1));
        let mine = nodes.replace(2);
        let mut taken = [mine, writer.join().unwrap(), nodes.read()];
        taken.sort();
        assert_eq!(taken, [0, 1, 2], "one is lost");
    });
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("readers_see_what_was_written", readers_see_what_was_written),
    ("each_node_is_taken_away_once", each_node_is_taken_away_once),
];
