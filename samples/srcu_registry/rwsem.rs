// SPDX-License-Identifier: GPL-2.0

//! A registry under a semaphore, as the kernel had for shrinkers for many years.
//!
//! A walk is skipped if a writer holds the semaphore or waits for it. A reclaimer that sleeps
//! blocks writers, and a waiting writer blocks all new walks.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::sync::rwsem::{
    new_rwsem,
    RwSemaphore, //
};

use super::{
    backend::{
        Backend,
        Walk, //
    },
    reclaimer::Reclaimer, //
};

#[pin_data]
pub(crate) struct Rwsem {
    #[pin]
    reclaimers: RwSemaphore<KVec<Arc<Reclaimer>>>,
}

impl Backend for Rwsem {
    const NAME: &'static CStr = c"rwsem";
    type Entry = Arc<Reclaimer>;

    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            reclaimers <- new_rwsem!(KVec::new()),
        })
    }

    fn register(&self, reclaimer: Arc<Reclaimer>) -> Result<Self::Entry> {
        self.reclaimers
            .write()
            .push(reclaimer.clone(), GFP_KERNEL)?;
        Ok(reclaimer)
    }

    fn unregister(&self, entry: Self::Entry) {
        self.reclaimers
            .write()
            .retain(|reclaimer| !Arc::ptr_eq(reclaimer, &entry));
    }

    fn walk(&self, mut visit: impl FnMut(&Reclaimer)) -> Walk {
        let Some(reclaimers) = self.reclaimers.try_read() else {
            return Walk::Skipped;
        };
        for reclaimer in reclaimers.iter().rev() {
            visit(reclaimer);
            if self.reclaimers.is_contended() {
                return Walk::CutShort;
            }
        }
        Walk::Complete
    }
}
