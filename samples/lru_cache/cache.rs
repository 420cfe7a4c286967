// SPDX-License-Identifier: GPL-2.0

//! The cache of the sample.

use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{
        Entry,
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

use kscale::mm::{
    gfp::Gfp,
    list_lru::{
        Item,
        ListLru,
        Status, //
    },
    shrinker::{
        Callbacks,
        Count,
        Scan,
        ScanControl,
        ShrinkControl, //
    }, //
};

use super::stats::{
    Event,
    Events, //
    Evicted,
};

/// Number of words in an object.
const WORDS: usize = 64;

/// An object. In a real cache, objects are expensive to create.
pub(crate) struct Object {
    key: u64,
    /// Set if the object was used since the last scan. A hit sets it and moves no list entry.
    is_used: Atomic<bool>,
    words: [u64; WORDS],
}

impl Object {
    fn new(key: u64) -> Self {
        Self {
            key,
            is_used: Atomic::new(false),
            words: [key; WORDS],
        }
    }

    /// Returns whether the contents are those that [`Object::new()`] set.
    pub(crate) fn is_intact(&self) -> bool {
        self.words.iter().all(|word| *word == self.key)
    }
}

type Objects = RBTree<u64, Item<Object>>;

#[pin_data]
pub(crate) struct Cache {
    pub(crate) lru: ListLru<Object>,
    /// No allocation happens under this lock, so callbacks may acquire it.
    #[pin]
    objects: SpinLock<Objects>,
    pub(crate) events: Events,
    #[pin]
    pub(crate) evicted: SpinLock<Evicted>,
}

impl Cache {
    pub(crate) fn new(lru: ListLru<Object>) -> Result<Arc<Self>> {
        let events = Events::new()?;
        Arc::pin_init(
            pin_init!(Self {
                lru,
                objects <- new_spinlock!(RBTree::new()),
                events,
                evicted <- new_spinlock!(Evicted::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the object with the given key, and creates it if it is not cached.
    pub(crate) fn get(&self, key: u64) -> Result<Item<Object>> {
        if let Some(object) = self.objects.lock().get(&key) {
            object.is_used.store(true, Relaxed);
            self.events.count(Event::Hit);
            return Ok(object.clone());
        }
        self.events.count(Event::Miss);
        // Both allocations may reclaim memory, also from this cache.
        let object = self.lru.alloc(Object::new(key), Gfp::KERNEL)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;

        let object = match self.objects.lock().entry(key) {
            Entry::Vacant(vacant) => vacant.insert(object, node).clone(),
            // Another task inserted the object first.
            Entry::Occupied(occupied) => occupied.get().clone(),
        };
        object.add();
        Ok(object)
    }

    /// Removes an object from the index. The caller drops the returned node without the lock.
    fn remove(&self, object: &Item<Object>) -> Option<RBTreeNode<u64, Item<Object>>> {
        let mut objects = self.objects.lock();
        // The key may belong to another object by now.
        match objects.get(&object.key) {
            Some(found) if Item::ptr_eq(found, object) => objects.remove_node(&object.key),
            _ => None,
        }
    }
}

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        Count::new(self.lru.shrink_count(control))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        let isolated = self.lru.shrink_walk(control, |object| {
            if object.is_used.xchg(false, Relaxed) {
                self.events.count(Event::Rotated);
                Status::Rotate
            } else {
                Status::Isolate
            }
        });
        let freed = isolated.len();
        for object in isolated {
            drop(self.remove(&object));
            self.events.count(Event::Evicted);
            self.evicted.lock().push(object.key);
        }
        Scan::freed(freed)
    }
}
