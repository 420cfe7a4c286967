// SPDX-License-Identifier: GPL-2.0

//! A registry under SRCU with a generation, as proposed for shrinkers.
//!
//! Walks never wait or skip. Unregistration waits for a grace period, that is for all running
//! calls. The generation stops walks before their next call meanwhile.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    }, //
};

use kscale::sync::srcu::{
    new_domain,
    new_list,
    Entry,
    Item,
    List,
    Normal, //
};

use super::{
    backend::{
        Backend,
        Walk, //
    },
    reclaimer::Reclaimer, //
};

#[pin_data]
pub(crate) struct Srcu {
    #[pin]
    reclaimers: List<Arc<Reclaimer>, Normal>,
    /// Incremented by each unregistration.
    generation: Atomic<u64>,
}

impl Backend for Srcu {
    const NAME: &'static CStr = c"srcu";
    type Entry = Entry<Arc<Reclaimer>>;

    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            reclaimers <- new_list!(new_domain!("srcu_registry")?),
            generation: Atomic::new(0),
        })
    }

    fn register(&self, reclaimer: Arc<Reclaimer>) -> Result<Self::Entry> {
        let item = Item::new(reclaimer, GFP_KERNEL)?;
        Ok(self.reclaimers.lock().push_front(item))
    }

    fn unregister(&self, entry: Self::Entry) {
        let removed = self.reclaimers.lock().remove(entry);
        self.generation.fetch_add(1, Release);
        // Without the lock, so that others can change the list meanwhile.
        if let Ok(retired) = removed {
            drop(retired.wait());
        }
    }

    fn walk(&self, mut visit: impl FnMut(&Reclaimer)) -> Walk {
        let reclaimers = self.reclaimers.read();
        let generation = self.generation.load(Acquire);
        for reclaimer in reclaimers.walk() {
            visit(reclaimer);
            if self.generation.load(Acquire) != generation {
                return Walk::CutShort;
            }
        }
        Walk::Complete
    }
}
