// SPDX-License-Identifier: GPL-2.0

//! Runs every constructor of the library with each of its allocations failing in turn.
//!
//! Only for kernels with fault injection. kmemleak checks that nothing leaks.

#![forbid(unsafe_code)]

use kernel::prelude::*;

#[cfg(CONFIG_IOMMU_IOVA)]
mod iova;
#[cfg(CONFIG_IOMMU_IOVA)]
mod iova_magazine;
mod page_stash;
mod shrinker;
mod srcu;

module! {
    type: FaultsModule,
    name: "faults",
    authors: ["The kscale authors"],
    description: "Tests of the library while memory is short",
    license: "GPL",
}

struct FaultsModule;

impl kernel::Module for FaultsModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

#[kunit_tests(kscale_faults)]
mod tests {
    use super::*;

    use core::{
        mem::MaybeUninit,
        num::NonZeroU16, //
    };

    use kernel::{
        cpu::CpuId,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        }, //
    };

    use kscale::{
        block::{
            bio::BioSet,
            dm, //
        },
        crypto::{
            secret::SecretBytes,
            skcipher::Skcipher, //
        },
        mm::{
            gfp::Gfp,
            mempool::{
                Allocator,
                Kmalloc,
                Mempool,
                Pages,
                Slab, //
            },
            page::{
                self,
                Page, //
            },
            slab::Cache, //
        },
        percpu::{
            counter::{
                LocalPerCpuCounter,
                PerCpuCounter,
                PerCpuCounterArray, //
            },
            hotplug,
            limiter::CreditCounter,
            possible_cpus,
            PerCpu,
            PerCpuInts, //
        },
        sync::{
            rcu_list,
            rwsem::new_rwsem,
            workqueue::{
                Flags,
                Workqueue, //
            }, //
        },
        testing::fault::{
            each_failure,
            each_failure_once, //
        }, //
    };

    /// The smallest reserve with an element that is not the first.
    const MIN_NR: usize = 2;

    #[test]
    fn faults_are_counted() -> Result {
        let none = each_failure(|| Ok(()))?;
        assert_eq!(none.refused, 0);
        assert_eq!(none.tolerated, 0);

        // The kernel's debug code may allocate, too.
        let one = each_failure(|| Ok(KBox::new(0_u64, GFP_KERNEL)?))?;
        assert!(one.refused >= 1);

        let two = each_failure(|| {
            let first = KBox::new(0_u64, GFP_KERNEL)?;
            Ok((first, KBox::new(0_u64, GFP_KERNEL)?))
        })?;
        assert!(two.refused_at_least(2));

        let optional = each_failure(|| Ok(KBox::new(0_u64, GFP_KERNEL).ok()))?;
        assert_eq!(optional.refused, 0);
        assert!(optional.tolerated >= 1);
        Ok(())
    }

    #[test]
    fn other_errors_are_not_taken_for_failed_allocations() {
        let wrong = each_failure(|| KBox::new(0_u64, GFP_KERNEL).map_err(|_| EINVAL));
        assert_eq!(wrong.err(), Some(EINVAL));

        let always = each_failure(|| Err::<(), Error>(ENOMEM));
        assert_eq!(always.err(), Some(ENOMEM));
    }

    #[test]
    fn percpu() -> Result {
        assert!(each_failure(PerCpuInts::<u64, 2>::new)?.refused >= 1);

        // The slots, and a box for each. A failure drops the boxes that exist by then.
        let boxes = each_failure(|| PerCpu::new(|cpu| Ok(KBox::new(cpu.as_u32(), GFP_KERNEL)?)))?;
        let allocations = u32::try_from(possible_cpus().count()).map_err(|_| EINVAL)? + 1;
        assert!(boxes.refused_at_least(allocations));
        Ok(())
    }

    #[test]
    fn percpu_counter() -> Result {
        let batched = each_failure(|| KBox::try_pin_init(PerCpuCounter::new(1), GFP_KERNEL))?;
        let local = each_failure(|| KBox::try_pin_init(LocalPerCpuCounter::new(1), GFP_KERNEL))?;
        let array = each_failure(|| -> Result<Pin<KBox<PerCpuCounterArray<8>>>> {
            KBox::try_pin_init(PerCpuCounterArray::new(1), GFP_KERNEL)
        })?;

        // The box and the slots. All slots of an array are one allocation.
        assert!(batched.refused_at_least(2));
        assert!(local.refused_at_least(2));
        assert!(array.refused_at_least(2));
        Ok(())
    }

    #[test]
    fn percpu_limiter() -> Result {
        assert!(each_failure(|| CreditCounter::new(100))?.refused >= 1);

        // Credits need no memory.
        let limiter = CreditCounter::new(100)?;
        let credits = each_failure(|| {
            if !limiter.try_charge(100) {
                return Err(EINVAL);
            }
            limiter.uncharge(100);
            limiter.set_limit(100)
        })?;
        assert_eq!(credits.refused + credits.tolerated, 0);
        assert_eq!(limiter.in_use(), 0);
        Ok(())
    }

    /// Counts the CPUs that are online.
    struct Online(Atomic<i32>);

    #[vtable]
    impl hotplug::Callbacks for Online {
        fn online(&self, _: CpuId) -> Result {
            self.0.add(1, Relaxed);
            Ok(())
        }

        fn offline(&self, _: CpuId) {
            self.0.add(-1, Relaxed);
        }
    }

    #[test]
    fn cpuhp() -> Result {
        let online = Arc::new(Online(Atomic::new(0)), GFP_KERNEL)?;

        let failures = each_failure(|| hotplug::Registration::new(online.clone()))?;
        assert!(failures.refused >= 1);
        // A failed registration undoes the calls that it has made.
        assert_eq!(online.0.load(Relaxed), 0);

        let again = hotplug::Registration::new(online.clone())?;
        assert!(online.0.load(Relaxed) > 0);
        drop(again);
        assert_eq!(online.0.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn page() -> Result {
        assert!(each_failure(|| Page::<0>::alloc(Gfp::KERNEL))?.refused >= 1);
        assert!(each_failure(|| Page::<3>::alloc(Gfp::KERNEL))?.refused >= 1);
        Ok(())
    }

    #[test]
    fn pages_in_bulk() -> Result {
        let failures = each_failure(|| {
            let mut slots = [const { None }; 8];
            match page::alloc_bulk(Gfp::KERNEL, &mut slots) {
                8 => Ok(()),
                _ => Err(ENOMEM),
            }
        })?;
        // The call continues after a failure, unless it got nothing.
        assert!(failures.refused + failures.tolerated >= 1);
        Ok(())
    }

    /// An allocator of the caller, which allocates a page for each element.
    struct Own;

    impl Allocator for Own {
        type Memory = Page;

        fn alloc(&self, gfp: Gfp) -> Option<Page> {
            Page::alloc(gfp).ok()
        }

        fn free(&self, page: Page) {
            drop(page);
        }
    }

    #[test]
    fn mempool() -> Result {
        // At least the box, the list of elements, and each element.
        const LEAST: u32 = 2 + MIN_NR as u32;
        let cache = Cache::<[u64; 9]>::new(c"kscale_faults")?;

        let pages = each_failure(|| KBox::pin_init(Mempool::new(MIN_NR, Pages::<0>), GFP_KERNEL))?;
        let kmalloc = each_failure(|| {
            KBox::pin_init(Mempool::new(MIN_NR, Kmalloc::<[u64; 9]>::new()), GFP_KERNEL)
        })?;
        let slab =
            each_failure(|| KBox::pin_init(Mempool::new(MIN_NR, Slab::new(&cache)), GFP_KERNEL))?;
        let own = each_failure(|| KBox::pin_init(Mempool::new(MIN_NR, Own), GFP_KERNEL))?;

        assert!(pages.refused_at_least(LEAST));
        assert!(kmalloc.refused_at_least(LEAST));
        // Free objects of a slab need no allocation.
        assert!(slab.refused_at_least(LEAST));
        assert!(own.refused_at_least(LEAST));
        Ok(())
    }

    #[test]
    fn mempool_resize() -> Result {
        let mut pool = KBox::pin_init(Mempool::new(MIN_NR, Pages::<0>), GFP_KERNEL)?;

        let failures = each_failure(|| {
            let result = pool.as_mut().resize(MIN_NR + 2);
            let min_nr = pool.min_nr();
            if result.is_ok() != (min_nr == MIN_NR + 2) {
                return Err(EINVAL);
            }
            pool.as_mut().resize(MIN_NR)?;
            result
        })?;

        // The list of elements.
        assert!(failures.refused >= 1);
        // Elements, which may be allocated later.
        assert!(failures.tolerated >= 2);
        assert_eq!(pool.min_nr(), MIN_NR);
        Ok(())
    }

    #[test]
    fn mempool_alloc() -> Result {
        let pool = Arc::pin_init(Mempool::new(MIN_NR, Kmalloc::<[u64; 9]>::new()), GFP_KERNEL)?;

        let single = each_failure(|| pool.alloc(Gfp::KERNEL).map(drop))?;
        let counting = each_failure(|| pool.alloc_arc(Gfp::KERNEL).map(drop))?;
        let bulk = each_failure(|| {
            let mut slots = [const { MaybeUninit::uninit() }; MIN_NR];
            pool.alloc_bulk(&mut slots).map(drop)
        })?;
        // That is the guarantee of a pool.
        assert_eq!(single.refused + counting.refused + bulk.refused, 0);
        assert!(single.tolerated >= 1);
        assert!(counting.tolerated >= 1);
        assert!(bulk.tolerated >= 1);
        Ok(())
    }

    /// A value with memory of its own fails without losing its element.
    #[test]
    fn mempool_value() -> Result {
        let pool = KBox::pin_init(Mempool::new(MIN_NR, Kmalloc::<Boxed>::new()), GFP_KERNEL)?;

        let failures = each_failure(|| {
            let value = pool.alloc(Gfp::KERNEL)?.write_init(Boxed::new())?;
            drop(value);
            Ok(())
        })?;
        assert!(failures.refused >= 1);

        for _ in 0..4 * MIN_NR {
            drop(pool.alloc_preallocated().ok_or(ENOMEM)?);
        }
        Ok(())
    }

    struct Boxed {
        _number: KBox<u64>,
    }

    impl Boxed {
        fn new() -> impl Init<Self, Error> {
            try_init!(Self {
                _number: KBox::new(1, GFP_KERNEL)?,
            })
        }
    }

    #[test]
    fn slab() -> Result {
        // The name, the counts and the cache with its name.
        let new = each_failure_once(|| Cache::<[u64; 9]>::new(c"kscale_faults"))?;
        assert!(new.refused_at_least(3));

        let cache = Arc::new(Cache::<[u64; 9]>::new(c"kscale_faults")?, GFP_KERNEL)?;
        assert!(each_failure(|| cache.alloc(Gfp::KERNEL).map(drop))?.refused >= 1);
        assert!(each_failure(|| cache.alloc_arc(Gfp::KERNEL).map(drop))?.refused >= 1);
        Ok(())
    }

    #[test]
    fn rcu_list() -> Result {
        let failures = each_failure(|| {
            let list = KBox::pin_init(rcu_list::new_list!(), GFP_KERNEL)?;
            list.push_front(1_u8, GFP_KERNEL).map(drop)?;
            Ok(list)
        })?;
        // The box and the node.
        assert!(failures.refused_at_least(2));
        Ok(())
    }

    #[test]
    fn rwsem() -> Result {
        let failures = each_failure(|| KBox::pin_init(new_rwsem!(1_u8), GFP_KERNEL))?;
        assert!(failures.refused >= 1);
        Ok(())
    }

    #[test]
    fn workqueue() -> Result {
        for flags in [Flags::PERCPU, Flags::UNBOUND | Flags::HIGHPRI] {
            let failures = each_failure(|| Workqueue::new(c"kscale_faults", flags, 1))?;
            // At least the queue and its per-CPU part.
            assert!(failures.refused_at_least(2));
        }
        Ok(())
    }

    #[test]
    fn bio_set() -> Result {
        // Bio sets of one size share slab caches. Creation of a cache is slow.
        let _set = KBox::try_pin_init(BioSet::new(NonZeroU16::MIN), GFP_KERNEL)?;

        let failures =
            each_failure(|| KBox::try_pin_init(BioSet::new(NonZeroU16::MIN), GFP_KERNEL))?;
        assert!(failures.refused_at_least(2));
        Ok(())
    }

    #[test]
    fn skcipher() -> Result {
        // The crypto API allocates its shared instances in another task.
        let _instance = Skcipher::new(c"xts(aes)")?;

        let failures = each_failure(|| {
            let mut cipher = Skcipher::new(c"xts(aes)")?;
            cipher.set_key(&[7; 32])?;
            Ok(cipher)
        })?;
        assert!(failures.refused >= 1);
        Ok(())
    }

    #[test]
    fn key() -> Result {
        assert_eq!(each_failure(|| SecretBytes::new(&[1; 32]))?.refused, 1);
        assert!(each_failure(|| SecretBytes::from_hex(b"0123456789abcdef"))?.refused >= 1);
        Ok(())
    }

    /// A target that ends every bio with an error.
    struct Refuse;

    #[vtable]
    impl dm::Target for Refuse {
        const NAME: &'static CStr = c"kscale_faults";
        const VERSION: [u32; 3] = [1, 0, 0];
        type ModuleData = ();
        type PerBio = ();

        fn ctr(
            _data: &(),
            _: &mut dm::TargetBuilder<'_>,
            _: dm::Args<'_>,
        ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
            Ok(Ok::<Self, Error>(Self))
        }

        fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
            bio.kill()
        }
    }

    #[test]
    fn dm_registration() -> Result {
        let failures = each_failure(|| dm::Registration::<Refuse>::new(()))?;
        assert!(failures.refused >= 1);

        // A failed registration does not keep the name.
        drop(dm::Registration::<Refuse>::new(())?);
        Ok(())
    }
}
