// SPDX-License-Identifier: GPL-2.0

//! Tasks that walk, and a task that registers and unregisters.

use kernel::{
    impl_has_work,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    task::might_sleep,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use kscale::{
    percpu::preempt_disable,
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use super::{
    backend::{
        Backend,
        Walk, //
    },
    latencies::Latencies,
    load::{
        Load,
        Results, //
    },
    reclaimer::Reclaimer,
    registry::{
        walk,
        Counts,
        Registry, //
    }, //
};

/// A task that walks until `stop` is set.
#[pin_data]
struct Reader<B: Backend> {
    backend: Arc<B>,
    counts: Arc<Counts>,
    stays: usize,
    stop: Arc<Atomic<bool>>,
    walks: Atomic<u64>,
    cut_short: Atomic<u64>,
    skipped: Atomic<u64>,
    #[pin]
    work: Work<Reader<B>>,
}

impl_has_work! {
    impl{B: Backend} HasWork<Self> for Reader<B> { self.work }
}

impl<B: Backend> WorkItem for Reader<B> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            match walk(&*this.backend, &this.counts, this.stays) {
                Walk::Complete => &this.walks,
                Walk::CutShort => &this.cut_short,
                Walk::Skipped => &this.skipped,
            }
            .add(1, Relaxed);
            // A task that starts late walks, too.
            if this.stop.load(Relaxed) {
                break;
            }
            give_way();
        }
    }
}

/// Yields the CPU if the scheduler requests it.
///
/// Preemptible kernels do so on return from an interrupt. User-Mode Linux does not, and a walk
/// under SRCU has no other scheduling point.
fn give_way() {
    might_sleep();
    drop(preempt_disable());
}

/// Runs a load with this task as the writer, and waits until it completes.
pub(crate) fn run<B: Backend>(registry: &Registry<B>, load: &Load) -> Result<Results> {
    let mut entries = KVec::with_capacity(usize::from(load.items) + 1, GFP_KERNEL)?;
    let registered = register_those_that_stay(&*registry.backend, load, &mut entries);
    let results = registered.and_then(|()| run_tasks(registry, load, entries.len()));

    for (reclaimer, entry) in entries {
        registry.backend.unregister(entry);
        reclaimer.mark_unregistered();
    }
    results
}

fn register_those_that_stay<B: Backend>(
    backend: &B,
    load: &Load,
    entries: &mut KVec<(Arc<Reclaimer>, B::Entry)>,
) -> Result {
    let sleepers = u16::from(load.sleep_ms != 0);

    // OVERFLOW: `parse()` bounds `items`.
    for index in 0..load.items + sleepers {
        // The sleeping reclaimer is registered first, so walks call it last.
        let sleep_ms = if index < sleepers { load.sleep_ms } else { 0 };
        let reclaimer = Reclaimer::new("stays", sleep_ms)?;
        let entry = backend.register(reclaimer.clone())?;
        entries.push((reclaimer, entry), GFP_KERNEL)?;
    }
    Ok(())
}

fn run_tasks<B: Backend>(registry: &Registry<B>, load: &Load, stays: usize) -> Result<Results> {
    let stop = Arc::new(Atomic::new(false), GFP_KERNEL)?;
    let mut readers = KVec::with_capacity(load.readers.into(), GFP_KERNEL)?;
    for _ in 0..load.readers {
        let their_stop = stop.clone();
        let reader = Arc::pin_init(
            pin_init!(Reader {
                backend: registry.backend.clone(),
                counts: registry.counts.clone(),
                stays,
                stop: their_stop,
                walks: Atomic::new(0),
                cut_short: Atomic::new(0),
                skipped: Atomic::new(0),
                work <- new_work!("srcu_registry::Reader"),
            }),
            GFP_KERNEL,
        )?;
        readers.push(reader, GFP_KERNEL)?;
    }
    let mut latencies = Latencies::new()?;
    let queue = Workqueue::new(c"srcu_registry", Flags::UNBOUND, load.readers.into())?;

    let start = Instant::<Monotonic>::now();
    for reader in &readers {
        // The readers were not queued before.
        let _ = queue.enqueue(reader.clone());
    }
    let written = write(&*registry.backend, load, start, &mut latencies);
    let elapsed_ms = start.elapsed().as_millis();
    stop.store(true, Relaxed);
    // Waits for the readers.
    drop(queue);
    written?;

    let sum = |count: fn(&Reader<B>) -> &Atomic<u64>| {
        let counts = readers.iter().map(|reader| count(reader).load(Relaxed));
        counts.sum()
    };
    Ok(Results {
        load: *load,
        walks: sum(|reader| &reader.walks),
        cut_short: sum(|reader| &reader.cut_short),
        skipped: sum(|reader| &reader.skipped),
        elapsed_ms,
        latencies,
    })
}

/// Registers and unregisters reclaimers until the time is over, at least one.
fn write<B: Backend>(
    backend: &B,
    load: &Load,
    start: Instant<Monotonic>,
    latencies: &mut Latencies,
) -> Result {
    loop {
        let reclaimer = Reclaimer::new("comes and goes", 0)?;
        let entry = backend.register(reclaimer.clone())?;
        if load.pause_us != 0 {
            fsleep(Delta::from_micros(load.pause_us.into()));
        }

        let before = Instant::<Monotonic>::now();
        backend.unregister(entry);
        let latency = before.elapsed();
        reclaimer.mark_unregistered();
        latencies.add(latency.as_nanos());
        if start.elapsed().as_millis() >= load.ms.into() {
            return Ok(());
        }
        give_way();
    }
}
