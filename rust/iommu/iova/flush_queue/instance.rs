// SPDX-License-Identifier: GPL-2.0

//! The state of a queue that lives as long as its timer may be armed.

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
    },
    task::Task, //
};

use core::num::NonZeroUsize;

use crate::{
    bindings,
    percpu::PerCpu,
    sync::StableRef, //
};

use super::{
    super::{
        range::Range,
        space::Space, //
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
/// It was allocated from the space of its queue, and only the queue frees it.
pub(super) struct Entry {
    pfn: NonZeroUsize,
    size_pfns: usize,
}

impl Entry {
    /// Takes over the page frames of a range.
    #[inline]
    pub(super) fn new<R: StableRef<Target: Space>>(range: Range<R>) -> Self {
        let (_space, pfn, size_pfns) = range.into_parts();
        // INVARIANT: The caller checks the space. `Range` does not free the page frames any more.
        Self { pfn, size_pfns }
    }
}

/// The rings of all CPUs.
type Rings = PerCpu<SpinLockIrq<Ring<Entry>>>;

/// Creates empty rings.
// Not instantiated in other crates: each would have its own name for the one lock class.
#[inline(never)]
fn new_rings() -> Result<Rings> {
    PerCpu::pin_init(|_| new_spinlock_irq!(Ring::new(), "kscale::iova::Ring"))
}

/// The state of a queue. It lives as long as the timer may be armed or a reference exists.
#[pin_data(PinnedDrop)]
pub(super) struct Instance<S: Space, T: Iotlb> {
    #[pin]
    pub(super) timer: Timer,
    armed: Armed,
    timeout_ms: u32,
    /// The task that the timer has interrupted, 0 while the timer does not run.
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
            // - It is a field of an `Instance<S, T>`, as `timeout()` requires.
            // - Tasks that queue to a `FlushQueue`, and the timer itself, arm it. `FlushQueue`
            //   passes a reference to `teardown::register()`, which drops it only after `stop()`
            //   has shut the timer down.
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

    /// Frees a queued range.
    #[inline]
    fn free(&self, entry: Entry) {
        // SAFETY: By the type invariants of `Entry`, which is consumed.
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

    /// Returns the number of queued ranges.
    pub(super) fn queued(&self) -> usize {
        self.rings.iter().map(|(_, ring)| ring.lock().len()).sum()
    }

    /// See [`FlushQueue::flush()`](super::FlushQueue::flush).
    ///
    /// Returns whether ranges are left: those queued meanwhile, or while another flush began that
    /// still runs.
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

    /// Returns whether the timer is the caller.
    pub(super) fn is_in_timer(&self) -> bool {
        self.interrupted.load(Relaxed) == Task::current_raw().addr()
    }
}

#[pinned_drop]
impl<S: Space, T: Iotlb> PinnedDrop for Instance<S, T> {
    /// Frees ranges that were queued after the timer was shut down.
    fn drop(self: Pin<&mut Self>) {
        if self.queued() > 0 {
            self.flush();
        }
    }
}

/// Flushes, and frees the queued ranges of all CPUs.
///
/// # Safety
///
/// Only C may call this, with the timer of an [`Instance<S, T>`].
pub(super) unsafe extern "C" fn timeout<S: Space, T: Iotlb>(timer: *mut bindings::timer_list) {
    // SAFETY: The timer is in an instance, by the safety requirements.
    let instance: *const Instance<S, T> =
        unsafe { container_of!(Timer::from_raw(timer), Instance<S, T>, timer) };
    // SAFETY: The instance is freed only after the timer is shut down, which waits for this
    // function.
    let instance = unsafe { &*instance };

    // The interrupted task is suspended until this returns. So while it is current, this is
    // running.
    instance
        .interrupted
        .store(Task::current_raw().addr(), Relaxed);
    instance.armed.expire(
        || instance.flush(),
        || instance.timer.arm(instance.timeout_ms),
    );
    instance.interrupted.store(0, Relaxed);
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_flush_instance)]
mod tests {
    use super::{
        super::super::{
            Alignment,
            Builder, //
        },
        *, //
    };

    use kernel::page::PAGE_SIZE;

    struct NoIotlb;

    #[vtable]
    impl Iotlb for NoIotlb {
        fn flush_all(&self) {}
    }

    /// The timer is armed again for a range of any CPU, also if the rings of later CPUs are empty.
    #[test]
    fn a_range_of_any_cpu_is_left() -> Result {
        let domain = Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?;
        let iotlb = Arc::new(NoIotlb, GFP_KERNEL)?;
        // The timer is never armed, as the ranges are not queued by `queue()`.
        let instance = KBox::pin_init(Instance::new(domain.clone(), iotlb, 1), GFP_KERNEL)?;

        for (_, ring) in instance.rings.iter() {
            let entry = Entry::new(domain.alloc(1, 1023, Alignment::Any)?);
            let mut is_left = false;

            // The range is queued while a flush runs, which ends after the next one.
            instance.counters.flush(|| {
                let free = |entry| instance.free(entry);
                ring.lock().queue(entry, &instance.counters, || (), free);
                is_left = instance.flush();
            });
            assert!(is_left);
            assert_eq!(instance.queued(), 1);
            assert!(!instance.flush());
            assert_eq!(instance.queued(), 0);
        }
        Ok(())
    }
}
