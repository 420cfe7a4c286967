// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `later`: delayed work of targets, for tests.
//!
//! Table line: `<start> <len> later <what>`, where `what` is one of the names below. Status: the
//! number of runs of the work of this line.
//!
//! - `once`: the work counts its runs;
//! - `again`: the work queues itself again at once;
//! - `slow`: as `again`, and the work sleeps for some milliseconds;
//! - `leak`: as `once`, and the line leaks its handle and its queue;
//! - `fail`: the line queues the work, and fails.
//!
//! The message `queue <ms>` queues the work of all lines, also of those that failed or are gone.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use kscale::{
    block::dm,
    sync::workqueue::{
        Flags,
        Workqueue, //
    },
    testing::{
        leak::forget,
        task::in_noio_scope, //
    }, //
};

module! {
    type: LaterModule,
    name: "dm_later",
    authors: ["The kscale authors"],
    description: "Device-mapper target for tests of delayed work",
    license: "GPL",
}

struct LaterModule {
    _registration: dm::Registration<Later>,
}

impl kernel::Module for LaterModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let handles = Arc::pin_init(new_mutex!(KVec::new()), GFP_KERNEL)?;
        Ok(Self {
            _registration: dm::Registration::new(handles)?,
        })
    }
}

/// The handles of all lines.
type Handles = Arc<Mutex<KVec<dm::DelayedWork>>>;

struct Later {
    is_again: bool,
    is_slow: bool,
    work: dm::DelayedWork,
    handles: Handles,
    runs: Atomic<i64>,
}

#[vtable]
impl dm::Target for Later {
    const NAME: &'static CStr = c"later";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = Handles;
    type PerBio = ();

    fn ctr(
        handles: &Handles,
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let what = args.required(c"missing name")?.to_bytes();
        let queue = Workqueue::new(c"dm_later", Flags::UNBOUND, 0)?;
        let queue = Arc::new(queue, GFP_KERNEL)?;
        let work = builder.delayed_work(queue.clone())?;
        if builder.delayed_work(queue.clone()).err() != Some(EBUSY) {
            return Err(dm::CtrError::invalid(c"two works"));
        }
        handles.lock().push(work.clone(), GFP_KERNEL)?;
        // Has no effect, as there is no target yet.
        work.queue(Delta::ZERO);
        match what {
            b"leak" => {
                forget(queue)?;
                forget(work.clone())?;
            }
            b"fail" => {
                fsleep(Delta::from_millis(50));
                return Err(dm::CtrError::invalid(c"failed as requested"));
            }
            _ => {}
        }
        Ok(Ok::<_, Error>(Self {
            is_again: what == b"again" || what == b"slow",
            is_slow: what == b"slow",
            work,
            handles: handles.clone(),
            runs: Atomic::new(0),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.end(Ok(()))
    }

    fn delayed_work(self: Pin<&Self>) {
        // Reclaim may wait for this device.
        if !in_noio_scope() {
            return;
        }
        self.runs.add(1, Relaxed);
        if self.is_again {
            self.work.queue(Delta::ZERO);
        }
        if self.is_slow {
            fsleep(Delta::from_millis(30));
            self.runs.add(1, Relaxed);
        }
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "{}", self.runs.load(Relaxed))
    }

    fn message(self: Pin<&Self>, mut args: dm::Args<'_>, _: &mut dm::StatusBuf<'_>) -> Result {
        let is_queue = args.next().is_some_and(|word| word.to_bytes() == b"queue");
        let millis = args.parsed(c"").map_err(|error| error.error())?;
        if !is_queue {
            return Err(EINVAL);
        }
        for work in self.handles.lock().iter() {
            work.queue(Delta::from_millis(millis));
        }
        Ok(())
    }
}
