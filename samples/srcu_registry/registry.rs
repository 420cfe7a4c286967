// SPDX-License-Identifier: GPL-2.0

//! A registry and its named reclaimers.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};

use super::{
    backend::{
        Backend,
        Walk, //
    },
    load,
    reclaimer::{
        Call,
        Reclaimer, //
    }, //
};

#[pin_data]
pub(crate) struct Registry<B: Backend> {
    pub(crate) backend: Arc<B>,
    /// The reclaimers that are registered by name.
    #[pin]
    pub(crate) roster: Mutex<KVec<Registered<B>>>,
    pub(crate) counts: Arc<Counts>,
    /// Results of the last load.
    #[pin]
    pub(crate) last: Mutex<load::Results>,
}

pub(crate) struct Registered<B: Backend> {
    pub(crate) reclaimer: Arc<Reclaimer>,
    /// [`None`] during registration and unregistration.
    entry: Option<B::Entry>,
}

/// Counts of walks since the module was loaded.
pub(crate) struct Counts {
    pub(crate) complete: Atomic<u64>,
    pub(crate) cut_short: Atomic<u64>,
    pub(crate) skipped: Atomic<u64>,
    /// Calls of a reclaimer after `unregister` returned. Stays 0.
    pub(crate) late: Atomic<u64>,
    /// Complete walks that missed a reclaimer. Stays 0.
    pub(crate) lost: Atomic<u64>,
}

impl Counts {
    fn new() -> Self {
        Self {
            complete: Atomic::new(0),
            cut_short: Atomic::new(0),
            skipped: Atomic::new(0),
            late: Atomic::new(0),
            lost: Atomic::new(0),
        }
    }
}

impl<B: Backend> Registry<B> {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            backend: Arc::pin_init(B::new(), GFP_KERNEL)?,
            roster <- new_mutex!(KVec::new()),
            counts: Arc::new(Counts::new(), GFP_KERNEL)?,
            last <- new_mutex!(load::Results::default()),
        })
    }

    /// Registers a reclaimer by name. Returns [`EEXIST`] if the name is taken.
    pub(crate) fn register(&self, name: &str, sleep_ms: u16) -> Result {
        let reclaimer = Reclaimer::new(name, sleep_ms)?;
        let mut roster = self.roster.lock();
        if roster.iter().any(|it| it.reclaimer.name() == name) {
            return Err(EEXIST);
        }
        let registered = Registered {
            reclaimer: reclaimer.clone(),
            entry: None,
        };
        roster.push(registered, GFP_KERNEL)?;
        drop(roster);

        // Without the lock of the roster, as this may wait for a reclaimer that sleeps.
        let entry = self.backend.register(reclaimer.clone());
        let mut roster = self.roster.lock();
        let own = |it: &Registered<B>| Arc::ptr_eq(&it.reclaimer, &reclaimer);
        match entry {
            Ok(entry) => {
                if let Some(registered) = roster.iter_mut().find(|it| own(it)) {
                    registered.entry = Some(entry);
                }
                Ok(())
            }
            Err(error) => {
                roster.retain(|it| !own(it));
                Err(error)
            }
        }
    }

    /// Unregisters a reclaimer by name. Returns [`ENOENT`] if the name is not registered.
    pub(crate) fn unregister(&self, name: &str) -> Result {
        let (reclaimer, entry) = {
            let mut roster = self.roster.lock();
            let named = roster.iter_mut().find(|it| it.reclaimer.name() == name);
            let registered = named.ok_or(ENOENT)?;
            let entry = registered.entry.take().ok_or(ENOENT)?;
            (registered.reclaimer.clone(), entry)
        };

        // Without the lock of the roster, as this may wait for a reclaimer that sleeps.
        self.backend.unregister(entry);
        reclaimer.mark_unregistered();
        let mut roster = self.roster.lock();
        roster.retain(|it| !Arc::ptr_eq(&it.reclaimer, &reclaimer));
        Ok(())
    }

    /// Ends the sleep of a reclaimer. Returns [`ENOENT`] if the name is not registered.
    pub(crate) fn wake(&self, name: &str) -> Result {
        let roster = self.roster.lock();
        let registered = roster.iter().find(|it| it.reclaimer.name() == name);
        registered.ok_or(ENOENT)?.reclaimer.wake();
        Ok(())
    }

    /// Calls all reclaimers, unless a writer prevents it.
    pub(crate) fn walk(&self) {
        walk(&*self.backend, &self.counts, 0);
    }
}

/// Runs a walk, counts its result and returns it. A complete walk must call `at_least` reclaimers.
pub(crate) fn walk<B: Backend>(backend: &B, counts: &Counts, at_least: usize) -> Walk {
    let mut met = 0;
    let walk = backend.walk(|reclaimer| {
        met += 1;
        if reclaimer.call() == Call::Late {
            counts.late.add(1, Relaxed);
        }
    });

    match walk {
        Walk::Complete => &counts.complete,
        Walk::CutShort => &counts.cut_short,
        Walk::Skipped => &counts.skipped,
    }
    .add(1, Relaxed);
    if walk == Walk::Complete && met < at_least {
        counts.lost.add(1, Relaxed);
    }
    walk
}
