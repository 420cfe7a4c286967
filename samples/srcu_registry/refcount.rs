// SPDX-License-Identifier: GPL-2.0

//! A registry under RCU with a reference count per reclaimer, as the kernel has for shrinkers
//! today.
//!
//! Walks never wait or skip. Unregistration waits for the callers of this reclaimer only.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::sync::rcu_list::{
    new_list,
    Entry,
    List, //
};

use super::{
    backend::{
        Backend,
        Walk, //
    },
    reclaimer::Reclaimer, //
};

#[pin_data]
pub(crate) struct Refcount {
    #[pin]
    reclaimers: List<Arc<Reclaimer>>,
}

impl Backend for Refcount {
    const NAME: &'static CStr = c"refcount";
    type Entry = Entry<Arc<Reclaimer>>;

    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            reclaimers <- new_list!(),
        })
    }

    fn register(&self, reclaimer: Arc<Reclaimer>) -> Result<Self::Entry> {
        Ok(self.reclaimers.push_front(reclaimer, GFP_KERNEL)?)
    }

    fn unregister(&self, entry: Self::Entry) {
        drop(self.reclaimers.remove(entry));
    }

    fn walk(&self, mut visit: impl FnMut(&Reclaimer)) -> Walk {
        self.reclaimers.for_each(|reclaimer| visit(reclaimer));
        Walk::Complete
    }
}
