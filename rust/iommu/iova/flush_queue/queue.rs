// SPDX-License-Identifier: GPL-2.0

//! A flush queue: a ring for each CPU, and a timer for all CPUs.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

use core::{
    marker::PhantomData,
    ptr, //
};

use crate::{
    module::teardown::{
        self,
        Teardown,
        TeardownId, //
    },
    sync::StableRef, //
};

use super::{
    super::{
        range::Range,
        space::Space, //
    },
    instance::{
        timeout,
        Entry,
        Instance, //
    }, //
};

/// The IOTLB of the devices that use the ranges.
#[vtable]
pub trait Iotlb: Send + Sync + 'static {
    /// Flushes all translations of unmapped ranges: no device uses them after the return.
    ///
    /// Context: Any context except NMI. Must not sleep. See the [module documentation](super). C:
    /// `flush_iotlb_all()` in `struct iommu_domain_ops`.
    fn flush_all(&self);
}

/// A queue that frees ranges after a flush that began after they were queued.
///
/// See the [module documentation](super) for the protocol.
///
/// The destructor flushes once more and frees all queued ranges. A leaked queue keeps working until
/// the module that implements [`Iotlb`] is unloaded. Its ranges are freed then, but its memory is
/// not. A queue must not be dropped by its own timer, in [`Iotlb::flush_all()`], as the destructor
/// would wait for the timer: the destructor prints an error, and the queue works on as if leaked.
///
/// A destructor that runs after the module has gone may still use the queue, but the timer is shut
/// down.
pub struct FlushQueue<S: Space + 'static, T: Iotlb> {
    instance: Arc<Instance<S, T>>,
    teardown: TeardownId,
    /// Invariant: a type and its subtype may both implement [`Iotlb`], and the timer calls `T`.
    _invariant: PhantomData<fn(T) -> T>,
}

impl<S: Space, T: Iotlb> FlushQueue<S, T> {
    /// The timeout of C's queues in milliseconds.
    pub const TIMEOUT_MS: u32 = 10;

    /// Creates a queue for ranges of `space`, whose translations are in `iotlb`.
    ///
    /// As [`with_timeout()`](Self::with_timeout) with C's [timeout](Self::TIMEOUT_MS).
    ///
    /// Context: As [`with_timeout()`](Self::with_timeout).
    pub fn new(space: Arc<S>, iotlb: Arc<T>) -> Result<Self> {
        Self::with_timeout(space, iotlb, Self::TIMEOUT_MS)
    }

    /// Creates a queue that flushes at most `timeout_ms` milliseconds after a range was queued.
    ///
    /// Allocates 6 KiB for each possible CPU.
    ///
    /// Fails with [`ENOMEM`]. Fails with [`EINVAL`] if the code of the queue is not in the module
    /// that implements [`Iotlb`]. Fails with [`ENODEV`] during the unload of a module that keeps
    /// making registrations.
    ///
    /// Context: Process context. May sleep.
    pub fn with_timeout(space: Arc<S>, iotlb: Arc<T>, timeout_ms: u32) -> Result<Self> {
        if !teardown::is_in_module::<Arc<Instance<S, T>>>() {
            pr_err!("iova: the IOTLB of a flush queue must belong to the module that creates it\n");
            return Err(EINVAL);
        }

        let instance = Arc::pin_init(Instance::new(space, iotlb, timeout_ms), GFP_KERNEL)?;
        // SAFETY: Checked above. The timer may be shut down at any time.
        let teardown = unsafe { teardown::register(instance.clone()) }?;
        Ok(Self {
            instance,
            teardown,
            _invariant: PhantomData,
        })
    }

    /// Frees `range` after a flush that has not begun yet.
    ///
    /// Also frees the flushed ranges of this CPU, and may flush.
    ///
    /// Returns the range if it is not from this queue's space.
    ///
    /// Context: Any context except NMI. Never sleeps. Costs one full barrier and the lock of this
    /// CPU's ring, which the timer of another CPU may hold. C: `queue_iova()` in
    /// `drivers/iommu/dma-iommu.c`.
    #[inline]
    pub fn queue<R: StableRef<Target = S>>(&self, range: Range<R>) -> Result<(), Range<R>> {
        let instance = &self.instance;
        if !ptr::eq(range.space(), &*instance.space) {
            return Err(range);
        }
        instance.queue(Entry::new(range));
        Ok(())
    }

    /// Flushes now, and frees all ranges that were queued before.
    ///
    /// Ranges that are queued meanwhile may stay queued.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the locks of all rings, one at a time.
    pub fn flush(&self) {
        self.instance.flush();
    }

    /// Returns the number of queued ranges.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the locks of all rings, one at a time.
    pub fn queued(&self) -> usize {
        self.instance.queued()
    }

    /// Returns the domain or cache of the ranges.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn space(&self) -> &Arc<S> {
        &self.instance.space
    }
}

// SAFETY: C calls `timeout()`. Any task may shut the timer down, and drop the `Arc`.
unsafe impl<S: Space + 'static, T: Iotlb> Teardown for Arc<Instance<S, T>> {
    type OwnerModule = T::OwnerModule;

    fn callbacks() -> impl AsRef<[usize]> {
        [timeout::<S, T> as *const () as usize]
    }

    /// Shuts the timer down, and waits for it.
    unsafe fn stop(instance: ArcBorrow<'_, Instance<S, T>>) {
        instance.timer.shutdown_sync();
    }

    /// Frees the queued ranges. The other reference may be leaked, so this cannot be left to the
    /// destructor of the instance.
    fn finish(&self) {
        self.flush();
    }
}

impl<S: Space, T: Iotlb> Drop for FlushQueue<S, T> {
    /// Sleeps.
    fn drop(&mut self) {
        if self.instance.is_in_timer() {
            pr_err!("iova: flush queue dropped by its own timer, leaking it\n");
            return;
        }
        self.teardown.end();
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_flush_queue)]
mod tests {
    use super::*;

    use super::super::super::{
        Builder,
        CachedDomain,
        WhenFull, //
    };

    use kernel::{
        new_spinlock_irq,
        page::PAGE_SIZE,
        sync::{
            atomic::{
                Acquire,
                Atomic,
                Full,
                Relaxed, //
            },
            SpinLockIrq, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    use crate::{
        module::cleanup::{
            self,
            testing::EmptyModule, //
        },
        percpu::testing::{
            migrate_disable,
            on_all_cpus, //
        },
        testing::leak::forget, //
    };

    /// A timeout that is longer than any test.
    const NEVER_MS: u32 = 3_600_000;

    type Queue = FlushQueue<CachedDomain, Flushes>;

    /// Counts flushes.
    #[pin_data]
    struct Flushes {
        started: Atomic<u64>,
        finished: Atomic<u64>,
        /// Dropped by the next flush.
        #[pin]
        queue: SpinLockIrq<Option<Queue>>,
    }

    #[vtable]
    impl Iotlb for Flushes {
        fn flush_all(&self) {
            self.started.fetch_add(1, Full);
            drop(self.queue.lock().take());
            self.finished.fetch_add(1, Full);
        }
    }

    fn queue(timeout_ms: u32) -> Result<(Queue, Arc<Flushes>)> {
        let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
        let flushes = Arc::pin_init(
            pin_init!(Flushes {
                started: Atomic::new(0),
                finished: Atomic::new(0),
                queue <- new_spinlock_irq!(None),
            }),
            GFP_KERNEL,
        )?;
        let domain = Arc::new(domain, GFP_KERNEL)?;
        let queue = FlushQueue::with_timeout(domain, flushes.clone(), timeout_ms)?;
        Ok((queue, flushes))
    }

    /// Waits for an effect of the timer, and returns whether it occurred.
    fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
        (0..10_000).any(|_| {
            let is_so = is_so();
            if !is_so {
                fsleep(Delta::from_millis(1));
            }
            is_so
        })
    }

    /// Allocates page frames 8 to 15, the only eight below the limit that are aligned.
    fn take(domain: &CachedDomain) -> Result<Range<&CachedDomain>> {
        domain.alloc_fast(8, 15, WhenFull::FlushRcaches)
    }

    /// Queues `count` page frames below 1024, and returns how many of them could not be queued.
    fn queue_some(queue: &Queue, count: usize) -> usize {
        let queued = (0..count).filter(|_| {
            let range = queue.space().alloc_fast(1, 1023, WhenFull::Fail);
            range.is_ok_and(|range| queue.queue(range).is_ok())
        });
        count - queued.count()
    }

    #[test]
    fn full_ring_is_flushed() -> Result {
        let (queue, flushes) = queue(NEVER_MS)?;

        // On one CPU, to fill one ring.
        let here = migrate_disable();
        let mut failed = queue_some(&queue, 255);
        let full = (queue.queued(), flushes.finished.load(Relaxed));
        failed += queue_some(&queue, 1);
        let flushed = (queue.queued(), flushes.finished.load(Relaxed));
        failed += queue_some(&queue, 10 * 255);
        drop(here);

        assert_eq!(failed, 0);
        assert_eq!(full, (255, 0));
        assert_eq!(flushed, (1, 1));
        assert_eq!(flushes.finished.load(Relaxed), 11);
        Ok(())
    }

    #[test]
    fn range_is_not_free_before_a_flush() -> Result {
        let (queue, flushes) = queue(NEVER_MS)?;
        for number in 0..3 {
            let range = take(queue.space())?;
            let pfn = range.pfn();
            assert!(queue.queue(range).is_ok());

            assert!(take(queue.space()).is_err());
            assert_eq!(flushes.finished.load(Relaxed), number);
            queue.flush();
            assert_eq!(take(queue.space())?.pfn(), pfn);
            assert_eq!(queue.queued(), 0);
        }
        Ok(())
    }

    #[test]
    fn flush_does_not_need_ranges() -> Result {
        let (queue, flushes) = queue(NEVER_MS)?;

        queue.flush();
        assert_eq!(flushes.finished.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn range_of_another_domain_is_returned() -> Result {
        let ((queue, _), (other, _)) = (queue(NEVER_MS)?, self::queue(NEVER_MS)?);

        let foreign = take(other.space())?;
        let foreign = queue.queue(foreign).err().ok_or(EINVAL)?;
        assert_eq!(foreign.pfn(), 8);
        assert!(take(other.space()).is_err());
        drop(foreign);
        drop(take(other.space())?);

        // The same for a range with an `Arc`.
        let counting = other
            .space()
            .alloc_fast_arc(8, 15, WhenFull::FlushRcaches)?;
        let counting = queue.queue(counting).err().ok_or(EINVAL)?;
        assert!(other.queue(counting).is_ok());
        assert_eq!((queue.queued(), other.queued()), (0, 1));
        Ok(())
    }

    #[test]
    fn timer_frees_queued_ranges() -> Result {
        let (queue, flushes) = queue(1)?;
        for _ in 0..2 {
            let before = flushes.finished.load(Relaxed);
            assert!(queue.queue(take(queue.space())?).is_ok());
            assert!(wait_until(|| queue.queued() == 0));
            assert!(flushes.finished.load(Relaxed) > before);
            drop(take(queue.space())?);
        }
        Ok(())
    }

    #[test]
    fn drop_flushes_and_frees_all_ranges() -> Result {
        let (queue, flushes) = queue(NEVER_MS)?;
        let domain = queue.space().clone();
        assert!(queue.queue(take(&domain)?).is_ok());

        drop(queue);
        assert_eq!(flushes.finished.load(Relaxed), 1);
        drop(take(&domain)?);
        // No other references are left.
        assert!(Arc::into_unique_or_drop(domain).is_some());
        assert!(Arc::into_unique_or_drop(flushes).is_some());
        Ok(())
    }

    #[test]
    fn queue_dropped_by_its_timer_is_leaked() -> Result {
        let (mut queue, flushes) = queue(1)?;

        // Repeat if the timer ran first.
        for _ in 0..100 {
            let before = flushes.finished.load(Relaxed);
            let range = queue.space().alloc_fast(1, 1023, WhenFull::Fail)?;
            assert!(queue.queue(range).is_ok());
            *flushes.queue.lock() = Some(queue);
            assert!(wait_until(|| flushes.finished.load(Relaxed) > before));

            let back = flushes.queue.lock().take();
            match back {
                Some(back) => queue = back,
                None => return Ok(()),
            }
        }
        Err(ETIMEDOUT)
    }

    /// Otherwise a queue would be leaked if a task drops it that the timer once interrupted.
    #[test]
    fn task_is_in_the_timer_only_while_the_timer_runs() -> Result {
        let (queue, flushes) = queue(NEVER_MS)?;
        assert!(queue.queue(take(queue.space())?).is_ok());
        let timer = ptr::from_ref(&queue.instance.timer).cast_mut().cast();

        // SAFETY: The timer is in an instance, and it is not shut down.
        unsafe { timeout::<CachedDomain, Flushes>(timer) };
        assert_eq!(flushes.finished.load(Relaxed), 1);
        assert_eq!(queue.queued(), 0);
        assert!(!queue.instance.is_in_timer());
        Ok(())
    }

    /// The timer's flush does not count for a range that was queued during a flush that still runs.
    #[test]
    fn timer_rearms_for_unflushed_ranges() -> Result {
        let (queue, flushes) = queue(1)?;
        let mut result = Err(ETIMEDOUT);

        queue.instance.counters.flush(|| {
            result = take(queue.space()).and_then(|range| {
                queue.queue(range).map_err(|_| EINVAL)?;
                let has_flushed = wait_until(|| flushes.finished.load(Relaxed) > 0);
                has_flushed.then_some(()).ok_or(ETIMEDOUT)
            });
        });

        result?;
        assert!(wait_until(|| queue.queued() == 0));
        Ok(())
    }

    #[test]
    fn queue_can_be_leaked() -> Result {
        let (queue, _) = queue(1)?;
        assert!(queue.queue(take(queue.space())?).is_ok());
        forget(queue)
    }

    /// As in a leaked destructor that runs after its module has gone.
    #[test]
    fn queue_stays_usable_after_module_cleanup() -> Result {
        let (queue, flushes) = queue(1)?;
        let domain = queue.space().clone();
        assert!(queue.queue(take(&domain)?).is_ok());

        queue.teardown.end();

        // The queue still holds a reference to the domain.
        let before = flushes.finished.load(Relaxed);
        let space = ptr::from_ref(&*domain);
        assert!(Arc::into_unique_or_drop(domain).is_none());
        assert!(ptr::eq(space, &**queue.space()));
        assert!(queue.queue(take(queue.space())?).is_ok());
        assert_eq!(queue.queued(), 1);
        assert_eq!(flushes.finished.load(Relaxed), before);
        drop(queue);
        assert_eq!(flushes.finished.load(Relaxed), before + 1);
        assert!(Arc::into_unique_or_drop(flushes).is_some());
        Ok(())
    }

    /// For each queued page frame, 1 plus the number of flushes that had begun; 0 for the others.
    struct Model {
        queue: Queue,
        flushes: Arc<Flushes>,
        queued: KVec<Atomic<u64>>,
        errors: Atomic<u32>,
    }

    #[test]
    fn ranges_of_all_cpus_wait_for_a_flush() -> Result {
        const PFNS: usize = 4096;
        const ROUNDS: usize = 1000;
        let mut queued = KVec::with_capacity(PFNS, GFP_KERNEL)?;
        for _ in 0..PFNS {
            queued.push(Atomic::new(0), GFP_KERNEL)?;
        }
        let (queue, flushes) = queue(1)?;
        let model = Model {
            queue,
            flushes,
            queued,
            errors: Atomic::new(0),
        };
        let model = Arc::new(model, GFP_KERNEL)?;

        let tasks = on_all_cpus(&model, |model| {
            for _ in 0..ROUNDS {
                let domain = model.queue.space();
                let range = domain.alloc_fast(1, PFNS - 1, WhenFull::FlushRcaches);
                let is_fine = range.is_ok_and(|range| {
                    let flushes = &model.flushes;
                    let queued = &model.queued[range.pfn()];
                    // The flushes that must have ended by now.
                    let is_flushed = flushes.finished.load(Acquire) >= queued.xchg(0, Full);
                    queued.store(flushes.started.load(Relaxed) + 1, Relaxed);
                    model.queue.queue(range).is_ok() && is_flushed
                });
                if !is_fine {
                    model.errors.add(1, Relaxed);
                }
            }
        })?;

        assert_eq!(model.errors.load(Relaxed), 0);
        assert!(model.flushes.finished.load(Relaxed) >= tasks * ROUNDS as u64 / PFNS as u64);
        Ok(())
    }

    /// An IOTLB whose `OwnerModule` is not the module of its code.
    struct Foreign;

    #[vtable]
    impl Iotlb for Foreign {
        type OwnerModule = EmptyModule;

        fn flush_all(&self) {}
    }

    #[test]
    fn code_of_another_module_is_rejected() -> Result {
        let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
        let domain = Arc::new(domain, GFP_KERNEL)?;
        let foreign = Arc::new(Foreign, GFP_KERNEL)?;

        let error = FlushQueue::new(domain.clone(), foreign.clone()).err();

        assert_eq!(error, Some(EINVAL));
        assert!(Arc::into_unique_or_drop(domain).is_some());
        assert!(Arc::into_unique_or_drop(foreign).is_some());
        Ok(())
    }

    #[test]
    fn failed_cleanup_record_frees_the_queue() -> Result {
        let (other, flushes) = queue(NEVER_MS)?;
        let domain = other.space().clone();
        drop(other);

        let error = cleanup::ADD
            .fail(|| FlushQueue::new(domain.clone(), flushes.clone()).map(drop))
            .err();

        assert_eq!(error, Some(ENOMEM));
        assert!(Arc::into_unique_or_drop(domain).is_some());
        assert!(Arc::into_unique_or_drop(flushes).is_some());
        Ok(())
    }
}
