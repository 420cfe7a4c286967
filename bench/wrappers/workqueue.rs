// SPDX-License-Identifier: GPL-2.0

//! Work items that are queued and run.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Completion, //
    },
    time::{
        Instant,
        Monotonic, //
    },
    workqueue::{
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    }, //
};

use core::hint::black_box;

use kscale::sync::workqueue::{
    Flags,
    Workqueue, //
};

use crate::ROUNDS;

/// Number of items that are queued before the wait.
const ITEMS: usize = 32;

/// A work item that counts its runs, and completes the round after the last run.
#[pin_data]
struct Item {
    #[pin]
    work: Work<Self>,
    round: Arc<Round>,
}

impl_has_work! {
    impl HasWork<Self> for Item { self.work }
}

impl WorkItem for Item {
    type Pointer = Arc<Self>;

    #[inline(never)]
    fn run(this: Arc<Self>) {
        if this.round.left.fetch_add(-1, Relaxed) == 1 {
            this.round.done.complete_all();
        }
    }
}

/// The state that all items of a round share.
#[pin_data]
struct Round {
    left: Atomic<i64>,
    #[pin]
    done: Completion,
}

pub(crate) struct Bench {
    queue: Workqueue,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            queue: Workqueue::new(c"bench", Flags::PERCPU, 0)?,
        })
    }

    /// Returns items that were not queued before.
    fn items() -> Result<KVec<Arc<Item>>> {
        let round = Arc::pin_init(
            pin_init!(Round {
                // CAST: The value is small.
                left: Atomic::new(ITEMS as i64),
                done <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let mut items = KVec::with_capacity(ITEMS, GFP_KERNEL)?;

        for _ in 0..ITEMS {
            let round = round.clone();
            let item = pin_init!(Item { work <- new_work!("bench"), round });
            items.push(Arc::pin_init(item, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(items)
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    dir.read_callback_file(c"queue_work_32", bench, &queue_work);
}

/// Measures the time until all items have run.
fn queue_work(bench: &Bench, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for _ in 0..ROUNDS {
        let items = Bench::items().map_err(|_| fmt::Error)?;
        let begin = Instant::<Monotonic>::now();

        for item in &items {
            black_box(bench.queue.enqueue(item.clone()).is_ok());
        }
        if let Some(item) = items.first() {
            item.round.done.wait_for_completion();
        }
        writeln!(f, "{} 1", begin.elapsed().as_nanos())?;
    }
    Ok(())
}
