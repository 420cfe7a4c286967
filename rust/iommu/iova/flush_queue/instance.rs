// SPDX-License-Identifier: GPL-2.0

//! What there is of a queue as long as its timer may be armed.

use kernel::{
    container_of,
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLockIrq, //
    }, //
};

use core::num::NonZeroUsize;

use crate::{
    bindings,
    percpu::PerCpu, //
};

use super::{
    super::{
        range::Range,
        space::{
            Space,
            SpaceRef, //
        }, //
    },
    armed::Armed,
    counters::Counters,
    queue::Iotlb,
    ring::Ring,
    timer::Timer, //
};

/// A range that is queued.
///
/// # Invariants
///
/// It was allocated from the space of the queue that it is in, and the queue is who frees it.
pub(super) struct Entry {
    pfn: NonZeroUsize,
    size_pfns: usize,
}

impl Entry {
    /// Takes over what a range has.
    #[inline]
    pub(super) fn new<R: SpaceRef>(range: Range<R>) -> Self {
        let (_space, pfn, size_pfns) = range.into_parts();
        // INVARIANT: The caller sees to the space; the range is not freed by `Range` any more.
        Self { pfn, size_pfns }
    }
}

/// The rings of all CPUs.
type Rings = PerCpu<SpinLockIrq<Ring<Entry>>>;

/// Creates empty rings.
// Not part of other crates, which would have a name each for the one class of locks.
#[inline(never)]
fn new_rings() -> Result<Rings> {
    PerCpu::pin_init(|_| new_spinlock_irq!(Ring::new(), "kscale::iova::Ring"))
}

/// A queue, as long as the timer may be armed, or somebody refers to it.
#[pin_data(PinnedDrop)]
pub(super) struct Instance<S: Space, T: Iotlb> {
    #[pin]
    pub(super) timer: Timer,
    armed: Armed,
    timeout_ms: u32,
    /// The task that the timer has interrupted, 0 while it does not run.
    interrupted: Atomic<usize>,
    pub(super) counters: Counters,
    rings: Rings,
    pub(super) space: Arc<S>,
    iotlb: Arc<T>,
}

impl<S: Space, T: Iotlb> Instance<S, T> {
    pub(super) fn new(space: Arc<S>, iotlb: Arc<T>, timeout_ms: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // SAFETY:
            // - It is a field of an `Instance<S, T>`, as `timeout()` asks for.
            // - It is armed by who queues to a `FlushQueue`, or by itself. `FlushQueue` leaves a
            //   reference that only its `free()` drops, after `stop()` has shut the timer down; that is
            //   called by `FlushQueue::drop()` or when the module goes. If it was never noted, it
            //   was never armed either.
            timer <- unsafe { Timer::new(timeout::<S, T>) },
            armed: Armed::new(),
            timeout_ms,
            interrupted: Atomic::new(0),
            counters: Counters::new(),
            rings: new_rings()?,
            space,
            iotlb,
        })
    }

    /// Frees what was queued.
    #[inline]
    fn free(&self, entry: Entry) {
        // SAFETY: By the type invariants of `Entry`, which is used up.
        unsafe { self.space.free(entry.pfn.get(), entry.size_pfns) };
    }

    /// See [`FlushQueue::queue()`](super::FlushQueue::queue).
    #[inline]
    pub(super) fn queue(&self, entry: Entry) {
        self.rings.raw_cpu().lock().queue(
            entry,
            &self.counters,
            || self.iotlb.flush_all(),
            |entry| self.free(entry),
        );

        self.armed.arm(|| self.timer.arm(self.timeout_ms));
    }

    /// Returns how many ranges are queued.
    pub(super) fn queued(&self) -> usize {
        self.rings.iter().map(|(_, ring)| ring.lock().len()).sum()
    }

    /// See [`FlushQueue::flush()`](super::FlushQueue::flush).
    ///
    /// Returns whether something was left: what was queued meanwhile, or while another flush began
    /// that still runs.
    pub(super) fn flush(&self) -> bool {
        let mut is_left = false;
        self.counters.flush(|| self.iotlb.flush_all());

        for (_, ring) in self.rings.iter() {
            let mut ring = ring.lock();
            ring.free_flushed(&self.counters, |entry| self.free(entry));
            is_left |= !ring.is_empty();
        }
        is_left
    }

    /// Tells whether the timer calls this.
    pub(super) fn is_in_timer(&self) -> bool {
        self.interrupted.load(Relaxed) == current_task()
    }
}

#[pinned_drop]
impl<S: Space, T: Iotlb> PinnedDrop for Instance<S, T> {
    /// Frees what was queued after the timer was shut down.
    fn drop(self: Pin<&mut Self>) {
        if self.queued() > 0 {
            self.flush();
        }
    }
}

/// Returns a number that only the current task has.
fn current_task() -> usize {
    // SAFETY: `get_current()` has no preconditions.
    // CAST: To an address.
    unsafe { bindings::get_current() as usize }
}

/// Flushes, and frees what all CPUs have queued.
///
/// # Safety
///
/// C must call back with the timer of an [`Instance<S, T>`].
pub(super) unsafe extern "C" fn timeout<S: Space, T: Iotlb>(timer: *mut bindings::timer_list) {
    // SAFETY: It is in an instance, by the safety requirements.
    let instance: *const Instance<S, T> =
        unsafe { container_of!(Timer::from_raw(timer), Instance<S, T>, timer) };
    // SAFETY: The instance is freed only after the timer was shut down, which waits for this.
    let instance = unsafe { &*instance };

    // The task does not go on before this returns, so if it is the current one then it is this.
    instance.interrupted.store(current_task(), Relaxed);
    instance.armed.expire(
        || instance.flush(),
        || instance.timer.arm(instance.timeout_ms),
    );
    instance.interrupted.store(0, Relaxed);
}
