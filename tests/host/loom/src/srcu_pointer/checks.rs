// SPDX-License-Identifier: GPL-2.0

//! What readers and writers of an address see, in every interleaving of a few calls.
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

/// What is behind the address.
struct Node(UnsafeCell<u32>);

/// Some nodes, and where one of them is found.
struct Nodes {
    nodes: [Node; 3],
    current: Current<Node>,
}

// SAFETY: The checker sees who touches the nodes at a time.
unsafe impl Send for Nodes {}

// SAFETY: As above.
unsafe impl Sync for Nodes {}

impl Nodes {
    /// The first one is found.
    fn new() -> Arc<Self> {
        Arc::new_cyclic(|this: &std::sync::Weak<Self>| {
            // SAFETY: It is the address of a field, of memory that is allocated.
            let first = unsafe { &raw const (*this.as_ptr()).nodes[0] };
            Self {
                nodes: [0; 3].map(|number| Node(UnsafeCell::new(number))),
                current: Current::new(NonNull::new(first.cast_mut()).unwrap()),
            }
        })
    }

    /// Writes to a node, and has it be found. Returns what was in the one before.
    fn replace(&self, index: usize) -> u32 {
        let node = &self.nodes[index];
        // SAFETY: Nobody else has it. If not, the checker sees it.
        node.0.with_mut(|number| unsafe { *number = index as u32 });
        Self::number(self.current.replace(NonNull::from(node)))
    }

    /// Returns what is in the node that is found.
    fn read(&self) -> u32 {
        Self::number(self.current.load())
    }

    fn number(node: NonNull<Node>) -> u32 {
        // SAFETY: Nodes stay until the model ends.
        let node = unsafe { node.as_ref() };
        // SAFETY: Nobody writes to what was found. If not, the checker sees it.
        node.0.with(|number| unsafe { *number })
    }
}

/// Who follows the address sees what was written before it got there.
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

/// Of two who replace it, each takes one away that nobody else does.
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

/// Every check and its name.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("readers_see_what_was_written", readers_see_what_was_written),
    ("each_node_is_taken_away_once", each_node_is_taken_away_once),
];
