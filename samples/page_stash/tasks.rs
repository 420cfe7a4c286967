// SPDX-License-Identifier: GPL-2.0

//! Tasks that get and put pages, and check that no other task has the same page.

use kernel::{
    cpu::CpuId,
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
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
    mm::page::Page,
    percpu::possible_cpus,
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use super::{
    load::{
        Load,
        Results,
        Tally, //
    },
    service::{
        Pages,
        Service, //
    }, //
};

/// Pages that a task gets before it yields the CPU.
const AT_ONCE: u64 = 4096;

/// Mark of an owned page, with the number of the task in the low bits. No page contains it by
/// chance.
const OWNED: u64 = 0x9a6e_c0de_0b5e_0000;

/// Maximum wait for the work item of the stash, in steps of one millisecond.
const TIMEOUT_MS: u32 = 60_000;

/// A task of a load.
#[pin_data]
struct Task {
    pages: Arc<Pages>,
    number: u16,
    /// Number of pages that the task gets.
    gets: u64,
    cpus: KVec<CpuId>,
    #[pin]
    tally: Mutex<Tally>,
    #[pin]
    work: Work<Task>,
}

impl_has_work! {
    impl HasWork<Self> for Task { self.work }
}

impl WorkItem for Task {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut tally = Tally::default();
        let cpus = this.cpus.iter().cycle();

        for (get, &cpu) in (0..this.gets).zip(cpus) {
            this.get_and_put(cpu, &mut tally);
            if get % AT_ONCE == 0 {
                might_sleep();
            }
        }
        *this.tally.lock() = tally;
    }
}

impl Task {
    fn get_and_put(&self, cpu: CpuId, tally: &mut Tally) {
        let Ok(mut page) = self.pages.get(cpu) else {
            tally.failures += 1;
            return;
        };
        tally.gets += 1;
        let mine = OWNED | u64::from(self.number);
        // A second owner has overwritten the mark by now.
        tally.shared += u64::from(write_mark(&mut page, mine) != mine);
        self.pages.put(cpu, page);
        tally.puts += 1;
    }
}

/// Writes a mark into a page, and returns the mark that is there then.
fn write_mark(page: &mut Page, mark: u64) -> u64 {
    let mut seen = [0; size_of::<u64>()];

    // CAST: 8.
    if let Some(mut start) = page.zeroed_segment_mut(0, seen.len() as u32) {
        // The segment has the length of the buffer.
        let _ = start.write_at(0, &mark.to_ne_bytes());
        let _ = start.as_segment().read_at(0, &mut seen);
    }
    u64::from_ne_bytes(seen)
}

/// Runs a load and waits until it completes.
pub(crate) fn run(service: &Service, load: Load) -> Result<Results> {
    let mut tasks = KVec::with_capacity(load.tasks.into(), GFP_KERNEL)?;

    for number in 0..load.tasks {
        let task = new_task(service, load, number)?;
        tasks.push(task, GFP_KERNEL)?;
    }
    let queue = Workqueue::new(c"page_stash", Flags::UNBOUND, load.tasks.into())?;
    let start = Instant::<Monotonic>::now();
    for task in &tasks {
        // The tasks were not queued before.
        let _ = queue.enqueue(task.clone());
    }
    // Waits for the tasks.
    drop(queue);

    let mut results = Results {
        elapsed_ms: start.elapsed().as_millis(),
        ..Results::default()
    };
    for task in &tasks {
        results.tally += *task.tally.lock();
    }
    results.lost = lost_at_rest(service);
    Ok(results)
}

fn new_task(service: &Service, load: Load, number: u16) -> Result<Arc<Task>> {
    let mut cpus = KVec::new();
    for cpu in possible_cpus().filter(|cpu| load.cpu.is_none_or(|only| only == cpu.as_u32())) {
        cpus.push(cpu, GFP_KERNEL)?;
    }
    if cpus.is_empty() {
        return Err(EINVAL);
    }
    let pages = service.pages.clone();
    let gets = load.calls.div_ceil(2 * u64::from(load.tasks));
    Arc::pin_init(
        pin_init!(Task {
            pages,
            number,
            gets,
            cpus,
            tally <- new_mutex!(Tally::default()),
            work <- new_work!("page_stash::Task"),
        }),
        GFP_KERNEL,
    )
}

/// Returns the number of lost pages, after the work item of the stash is idle.
fn lost_at_rest(service: &Service) -> i64 {
    let held = service.held.lock();

    for _ in 0..TIMEOUT_MS {
        let before = service.pages.cache.stats();
        let lost = service.pages.lost(held.len());
        if lost == 0 && service.pages.cache.stats() == before {
            return 0;
        }
        fsleep(Delta::from_millis(1));
    }
    service.pages.lost(held.len())
}
