// SPDX-License-Identifier: GPL-2.0

//! The cache.

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

/// How many words an object has.
const WORDS: usize = 64;

/// What it takes some time to make, in a real cache.
pub(crate) struct Object {
    key: u64,
    /// Whether it was used since it was last looked at, so that a hit moves nothing.
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

    /// Tells whether it is what it was made as.
    pub(crate) fn is_intact(&self) -> bool {
        self.words.iter().all(|word| *word == self.key)
    }
}

type Objects = RBTree<u64, Item<Object>>;

#[pin_data]
pub(crate) struct Cache {
    pub(crate) lru: ListLru<Object>,
    /// Nobody allocates while it is locked, so callbacks may wait for it.
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

    /// Returns the object of a key, which is made if it is not there.
    pub(crate) fn get(&self, key: u64) -> Result<Item<Object>> {
        if let Some(object) = self.objects.lock().get(&key) {
            object.is_used.store(true, Relaxed);
            self.events.count(Event::Hit);
            return Ok(object.clone());
        }
        self.events.count(Event::Miss);
        // Both may reclaim memory, from this cache, too.
        let object = self.lru.alloc(Object::new(key), Gfp::KERNEL)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;

        let object = match self.objects.lock().entry(key) {
            Entry::Vacant(vacant) => vacant.insert(object, node).clone(),
            // Somebody was faster.
            Entry::Occupied(occupied) => occupied.get().clone(),
        };
        object.add();
        Ok(object)
    }

    /// Has nobody find an object any more. Returns what is to be dropped without the lock.
    fn remove(&self, object: &Item<Object>) -> Option<RBTreeNode<u64, Item<Object>>> {
        let mut objects = self.objects.lock();
        // There may be another one of that key by now.
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
