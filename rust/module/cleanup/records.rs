// SPDX-License-Identifier: GPL-2.0

//! The cleanup records of all modules, and the modules that are going.
//!
//! A module may have many records, so all operations take logarithmic time.

use kernel::{
    ffi::c_void,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    }, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    lib::stack::Stack, //
};

/// A cleanup function. The argument is the `data` of the record.
pub(super) type Action = unsafe fn(NonNull<c_void>);

/// A cleanup record.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) stop: Action,
    pub(super) release: Action,
    pub(super) free: Action,
    /// Whether `free` waits for code of the module.
    pub(super) waits: bool,
    pub(super) data: NonNull<c_void>,
}

// SAFETY: `register()` requires functions that any task may call.
unsafe impl Send for Record {}

/// The progress of a cleanup record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Neither function may be called yet. The notifier waits until this stage ends.
    Prepared,
    /// `stop` has not been called.
    Active,
    /// `stop` is running.
    Stopping,
    /// `stop` has returned, or will never be called. `release` has not been called.
    Stopped,
    /// `release` was called. `free` has not been called, and does not wait for code of the module.
    Released,
    /// As `Released`, but `free` waits.
    ReleasedWaiting,
    /// [`end()`](super::end) calls all functions. The notifier waits until it has removed the
    /// record.
    Ending,
    /// As `Ending`, by [`refuse()`](super::refuse).
    Refused,
}

impl Stage {
    const ALL: [Self; 8] = [
        Self::Prepared,
        Self::Active,
        Self::Stopping,
        Self::Stopped,
        Self::Released,
        Self::ReleasedWaiting,
        Self::Ending,
        Self::Refused,
    ];

    /// Returns whether the newest record of the stage is the first. Otherwise it is the last.
    fn is_lifo(self) -> bool {
        matches!(self, Self::Stopped | Self::Released | Self::ReleasedWaiting)
    }
}

/// The number of a record, from [`register()`](super::register) or [`prepare()`](super::prepare).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordId {
    pub(super) module: usize,
    pub(super) number: u64,
}

/// The place of a record: those of one stage of one module are neighbours.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    stage: Stage,
    module: usize,
    /// The number of the record. In a stage in LIFO order, its bits are inverted.
    order: u64,
}

impl Key {
    fn new(id: RecordId, stage: Stage) -> Self {
        let order = if stage.is_lifo() {
            !id.number
        } else {
            id.number
        };
        Self {
            stage,
            module: id.module,
            order,
        }
    }

    fn id(&self) -> RecordId {
        let number = if self.stage.is_lifo() {
            !self.order
        } else {
            self.order
        };
        RecordId {
            module: self.module,
            number,
        }
    }
}

/// Memory for a record.
pub(super) struct Memory(RBTreeNodeReservation<Key, Record>);

impl Memory {
    /// Allocates memory for a record.
    ///
    /// Context: Process context. May sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

/// Number of records that a going module may add. Then its registrations are refused.
pub(super) const MAX_ADDED: u64 = 64;

/// A module that is going.
pub(super) struct GoingModule {
    /// The address of the `struct module`.
    pub(super) address: usize,
    /// The number of records added for the module since it is going. A `u64` does not overflow.
    pub(super) added: u64,
    /// The number of registrations that were refused. As above.
    pub(super) refused: u64,
    /// Whether new registrations of the module are ended at once.
    pub(super) is_closed: bool,
}

/// All cleanup records, and the modules that are going.
pub(super) struct Records {
    /// [`None`] before the first record.
    tree: Option<RBTree<Key, Record>>,
    /// The number of the next record. A `u64` does not overflow.
    pub(super) next: u64,
    pub(super) going: Stack<GoingModule>,
}

impl Records {
    pub(super) const fn new() -> Self {
        Self {
            tree: None,
            next: 0,
            going: Stack::new(),
        }
    }

    fn tree(&mut self) -> &mut RBTree<Key, Record> {
        self.tree.get_or_insert_with(RBTree::new)
    }

    /// Returns the entry of the going module at `address`.
    pub(super) fn going_mut(&mut self, address: usize) -> Option<&mut GoingModule> {
        self.going.find_mut(|going| going.address == address)
    }

    /// Adds a record.
    pub(super) fn add(
        &mut self,
        module: *mut bindings::module,
        memory: Memory,
        record: Record,
        stage: Stage,
    ) -> RecordId {
        let module = module.addr();
        if let Some(going) = self.going_mut(module) {
            going.added = going.added.wrapping_add(1);
            going.is_closed |= going.added > MAX_ADDED;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let id = RecordId { module, number };
        self.tree()
            .insert(memory.0.into_node(Key::new(id, stage), record));
        id
    }

    /// Returns a record, if it is in the stage.
    pub(super) fn get(&mut self, id: RecordId, stage: Stage) -> Option<Record> {
        self.tree().get(&Key::new(id, stage)).copied()
    }

    /// Returns the first record of a module that is in the stage, and whose number is less than
    /// `end`.
    pub(super) fn first(
        &mut self,
        module: *mut bindings::module,
        stage: Stage,
        end: u64,
    ) -> Option<RecordId> {
        let order = if stage.is_lifo() {
            // The largest number. There is none if `end` is 0.
            !end.checked_sub(1)?
        } else {
            0
        };
        let from = Key {
            stage,
            module: module.addr(),
            order,
        };
        let cursor = self.tree().cursor_lower_bound(&from)?;
        let (key, _) = cursor.current();
        let is_found = key.stage == from.stage && key.module == from.module;
        is_found.then(|| key.id()).filter(|id| id.number < end)
    }

    /// Returns whether a module has records in the stage.
    pub(super) fn has(&mut self, module: *mut bindings::module, stage: Stage) -> bool {
        self.first(module, stage, u64::MAX).is_some()
    }

    /// Returns whether callbacks of a module may run, except for those of refused registrations.
    pub(super) fn has_callbacks(&mut self, module: *mut bindings::module) -> bool {
        [Stage::Active, Stage::Stopping, Stage::Ending]
            .iter()
            .any(|stage| self.has(module, *stage))
    }

    /// Returns whether there are records of a module.
    pub(super) fn has_any(&mut self, module: *mut bindings::module) -> bool {
        Stage::ALL.iter().any(|stage| self.has(module, *stage))
    }

    /// Puts a record that is in the stage `from` into the stage `to`, and returns it.
    pub(super) fn put(&mut self, id: RecordId, from: Stage, to: Stage) -> Option<Record> {
        let record = self.get(id, from)?;
        let node = self.tree().remove_node(&Key::new(id, from))?;
        let memory = node.into_reservation();
        self.tree()
            .insert(memory.into_node(Key::new(id, to), record));
        Some(record)
    }

    /// Puts a record that is stopped into the stage that its `free` requires, and returns it.
    pub(super) fn put_released(&mut self, id: RecordId) -> Option<Record> {
        let to = if self.get(id, Stage::Stopped)?.waits {
            Stage::ReleasedWaiting
        } else {
            Stage::Released
        };
        self.put(id, Stage::Stopped, to)
    }

    /// Removes a record that is in the stage, and returns it.
    pub(super) fn remove(&mut self, id: RecordId, stage: Stage) -> Option<Record> {
        self.tree().remove(&Key::new(id, stage))
    }
}
