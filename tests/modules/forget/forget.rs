// SPDX-License-Identifier: GPL-2.0

//! Misuse of guards and handles by safe code: leaks, and drops in any order.
//!
//! The checks of the debug kernel must report nothing, neither during the test nor after the module
//! has gone. `tests/ui` has the orders that do not compile. Not tested: guards that are a lock to
//! lockdep, or that disable preemption or interrupts. If they are leaked, the kernel reports the
//! task itself.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use kscale::testing::leak::run_concurrently;

#[cfg(CONFIG_IOMMU_IOVA)]
mod iova;
#[cfg(CONFIG_IOMMU_IOVA)]
mod iova_magazine;
mod page_stash;
mod shrinker;

module! {
    type: ForgetModule,
    name: "forget",
    authors: ["The kscale authors"],
    description: "Tests of values that are leaked, and of drop orders",
    license: "GPL",
}

struct ForgetModule;

impl kernel::Module for ForgetModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

/// Returns the number of orders of `n` values.
const fn orders(n: usize) -> usize {
    if n == 0 {
        1
    } else {
        n * orders(n - 1)
    }
}

/// Drops `values` in the order with index `number`, of [`orders()`].
fn drop_in_order<T>(mut values: KVec<T>, mut number: usize) {
    while !values.is_empty() {
        let left = values.len();
        drop(values.remove(number % left));
        number /= left;
    }
}

/// Calls `check` with the index of each order of `n` values, all at once: most of the time it waits
/// for grace periods.
///
/// Fails if a call fails.
fn in_every_order(n: usize, check: fn(usize) -> Result) -> Result {
    run_concurrently(orders(n), check)
}

#[kunit_tests(kscale_forget)]
mod memory {
    use super::*;

    use core::{
        mem::{
            self,
            MaybeUninit, //
        },
        num::NonZeroU16, //
    };

    use kernel::{
        cpu::CpuId,
        fmt,
        sync::Arc, //
    };

    use kscale::{
        block::bio::BioSet,
        crypto::{
            secret::SecretBytes,
            skcipher::Skcipher, //
        },
        lib::debugfs::{
            Dir,
            File,
            Files, //
        },
        mm::{
            gfp::Gfp,
            mempool::{
                Bulk,
                Element,
                Kmalloc,
                Mempool,
                Pages,
                PoolBox, //
            },
            page::Page,
            slab::Cache, //
        },
        percpu::{
            counter::{
                PerCpuCounter,
                PerCpuCounterArray, //
            },
            hotplug,
            limiter::CreditCounter,
            PerCpu,
            PerCpuInts, //
        },
        sync::workqueue::{
            Flags,
            Workqueue, //
        },
        testing::leak::forget, //
    };

    const MIN_NR: usize = 4;

    /// Hotplug callbacks that are code of this module.
    struct CpuCallbacks;

    #[vtable]
    impl hotplug::Callbacks for CpuCallbacks {
        fn online(&self, _: CpuId) -> Result {
            Ok(())
        }

        fn offline(&self, _: CpuId) {}
    }

    /// The registration ends when this module is unloaded, and leaks nothing.
    #[test]
    fn forgotten_callbacks_are_called_until_their_module_goes() -> Result {
        let callbacks = Arc::new(CpuCallbacks, GFP_KERNEL)?;
        mem::forget(hotplug::Registration::new(callbacks)?);
        Ok(())
    }

    /// Data of files that are code of this module.
    struct Shown;

    #[vtable]
    impl Files for Shown {
        const FILES: &'static [File<Self>] = &[File::read_only(c"shown", Self::show)];
    }

    impl Shown {
        fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("shown\n")
        }
    }

    /// The directories are removed when this module is unloaded, also if only the inner one was
    /// leaked.
    #[test]
    fn forgotten_directories_exist_until_their_module_goes() -> Result {
        let data = Arc::new(Shown, GFP_KERNEL)?;
        let outer = Dir::new(c"kscale_forget", data.clone())?;
        mem::forget(Dir::new_in(&outer, c"inner", data.clone())?);
        drop(outer);
        mem::forget(Dir::new(c"kscale_forget_files", data)?);
        Ok(())
    }

    #[test]
    fn forgotten_owners_keep_what_they_own() -> Result {
        forget(Page::<1>::alloc(Gfp::KERNEL)?)?;
        forget(SecretBytes::new(b"secret")?)?;
        forget(PerCpu::new(|cpu| Ok(KBox::new(cpu.as_u32(), GFP_KERNEL)?))?)?;
        forget(PerCpuInts::<u64, 2>::new()?)?;
        // The kernel has a list of these counters, which it walks when a CPU goes offline.
        forget(KBox::try_pin_init(PerCpuCounter::new(1), GFP_KERNEL)?)?;
        forget(KBox::try_pin_init(
            PerCpuCounterArray::<2>::new(1),
            GFP_KERNEL,
        )?)?;
        forget(CreditCounter::new(100)?)?;
        forget(Skcipher::new(c"xts(aes)")?)?;
        forget(KBox::try_pin_init(
            BioSet::new(NonZeroU16::MIN),
            GFP_KERNEL,
        )?)?;
        forget(Workqueue::new(c"kscale_forget", Flags::UNBOUND, 1)?)?;
        forget(Cache::<[u64; 11]>::new(c"kscale_forget")?)?;
        forget(KBox::pin_init(
            Mempool::new(MIN_NR, Pages::<0>),
            GFP_KERNEL,
        )?)
    }

    type Numbers = Mempool<Kmalloc<[u64; 9]>>;

    /// A pool that is dropped with elements in use, and one that lives as long as its references.
    #[test]
    fn forgotten_elements_are_missing_from_the_reserve_only() -> Result {
        let pool: Pin<KBox<Numbers>> =
            KBox::pin_init(Mempool::new(MIN_NR, Kmalloc::new()), GFP_KERNEL)?;
        forget(pool.alloc(Gfp::KERNEL)?)?;
        forget(pool.alloc(Gfp::KERNEL)?.write([1; 9]))?;
        drop(pool.alloc(Gfp::KERNEL)?);
        drop(pool);

        let pool: Arc<Numbers> = Arc::pin_init(Mempool::new(MIN_NR, Kmalloc::new()), GFP_KERNEL)?;
        forget(pool.alloc_arc(Gfp::KERNEL)?)?;
        drop(pool);

        let pool = KBox::pin_init(Mempool::new(MIN_NR, Pages::<0>), GFP_KERNEL)?;
        let mut slots = [const { MaybeUninit::uninit() }; MIN_NR];
        mem::forget(pool.alloc_bulk(&mut slots)?);
        drop(pool.alloc(Gfp::KERNEL)?);
        drop(pool);
        Ok(())
    }

    /// The cache stays, and its value may be used forever.
    #[test]
    fn forgotten_values_keep_their_cache() -> Result {
        let cache = Cache::<[u64; 13]>::new(c"kscale_forget")?;
        forget(cache.alloc(Gfp::KERNEL)?.write([1; 13]))?;
        forget(cache.alloc(Gfp::KERNEL)?)?;
        drop(cache);

        let cache = Arc::new(Cache::<[u64; 13]>::new(c"kscale_forget")?, GFP_KERNEL)?;
        forget(cache.alloc_arc(Gfp::KERNEL)?.write([1; 13]))
    }

    /// Values that borrow from a pool.
    #[expect(dead_code, reason = "they are only dropped")]
    enum Lent<'a> {
        One(Element<&'a Numbers>),
        Value(PoolBox<&'a Numbers>),
        Counting(Element<Arc<Numbers>>),
        Many(Bulk<'a, Kmalloc<[u64; 9]>>),
    }

    #[test]
    fn elements_may_be_dropped_in_any_order() -> Result {
        let pool: Arc<Numbers> = Arc::pin_init(Mempool::new(MIN_NR, Kmalloc::new()), GFP_KERNEL)?;

        for number in 0..orders(4) {
            let mut slots = [const { MaybeUninit::uninit() }; MIN_NR];
            let mut lent = KVec::with_capacity(4, GFP_KERNEL)?;
            lent.push(Lent::One(pool.alloc(Gfp::KERNEL)?), GFP_KERNEL)?;
            lent.push(Lent::Many(pool.alloc_bulk(&mut slots)?), GFP_KERNEL)?;
            lent.push(
                Lent::Value(pool.alloc(Gfp::KERNEL)?.write([1; 9])),
                GFP_KERNEL,
            )?;
            lent.push(Lent::Counting(pool.alloc_arc(Gfp::KERNEL)?), GFP_KERNEL)?;
            drop_in_order(lent, number);
        }
        Ok(())
    }

    /// The last reference drops the pool.
    #[test]
    fn elements_may_outlive_their_pool() -> Result {
        for number in 0..orders(3) {
            let pool: Arc<Numbers> =
                Arc::pin_init(Mempool::new(MIN_NR, Kmalloc::new()), GFP_KERNEL)?;
            let mut lent = KVec::with_capacity(3, GFP_KERNEL)?;
            for _ in 0..3 {
                lent.push(pool.alloc_arc(Gfp::KERNEL)?, GFP_KERNEL)?;
            }
            drop(pool);
            drop_in_order(lent, number);
        }
        Ok(())
    }
}

#[kunit_tests(kscale_forget_srcu)]
mod srcu {
    use super::*;

    use core::mem;

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    use kscale::{
        sync::{
            rcu_list,
            srcu::{
                new_domain,
                new_list,
                new_pointer,
                Domain,
                Item,
                List,
                Normal,
                OwnedDownGuard,
                Pointer,
                Retired, //
            }, //
        },
        testing::leak::forget, //
    };

    /// Counts its drops, by code of this module.
    struct Counted(Arc<Atomic<usize>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    type Shared = Pin<KBox<Pointer<Counted, Normal>>>;

    fn domain() -> Result<Domain<Normal>> {
        new_domain!("kscale_forget")
    }

    fn item(drops: &Arc<Atomic<usize>>) -> Result<Item<Counted>> {
        Ok(Item::new(Counted(drops.clone()), GFP_KERNEL)?)
    }

    fn pointer(domain: &Domain<Normal>, drops: &Arc<Atomic<usize>>) -> Result<Shared> {
        KBox::try_pin_init(new_pointer!(domain.clone(), item(drops)?), GFP_KERNEL)
    }

    #[test]
    fn forgotten_guards_leave_the_domain_to_readers() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let domain = domain()?;
        let pointer = pointer(&domain, &drops)?;

        mem::forget(domain.down_read());
        forget(domain.clone().into_down_read())?;

        let guard = domain.down_read();
        assert!(pointer.load(&guard).is_ok());
        drop(guard);
        // Dropping the last handle would wait for the guards forever.
        forget(pointer)?;
        forget(domain)?;
        assert_eq!(drops.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn forgotten_items_are_never_dropped() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let domain = domain()?;
        let pointer = pointer(&domain, &drops)?;

        forget(item(&drops)?)?;
        forget(pointer.lock().replace(item(&drops)?))?;
        forget(pointer)?;
        drop(domain);

        assert_eq!(drops.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn dropped_entries_leave_their_item_to_the_list() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let domain = domain()?;
        let list: Pin<KBox<List<Counted, Normal>>> =
            KBox::try_pin_init(new_list!(domain.clone()), GFP_KERNEL)?;

        let mut writer = list.lock();
        drop(writer.push_back(item(&drops)?));
        drop(writer.push_back(item(&drops)?));
        drop(writer);
        drop(domain);
        assert_eq!(drops.load(Relaxed), 0);

        drop(list);
        assert_eq!(drops.load(Relaxed), 2);
        Ok(())
    }

    #[test]
    fn forgotten_walks_leave_their_value_to_the_list() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let list = KBox::pin_init(rcu_list::new_list!(), GFP_KERNEL)?;
        drop(list.push_front(Counted(drops.clone()), GFP_KERNEL)?);

        let mut walk = list.walk();
        assert!(walk.next().is_some());
        walk.leak();
        drop(list);

        assert_eq!(drops.load(Relaxed), 1);
        Ok(())
    }

    /// Callbacks of a leaked domain still run, and this module waits for them when it is unloaded.
    #[test]
    fn callbacks_outlive_a_forgotten_domain() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let domain = domain()?;
        let pointer = pointer(&domain, &drops)?;

        for _ in 0..16 {
            pointer.lock().replace(item(&drops)?).free_later();
            pointer.lock().replace(item(&drops)?).free_in_workqueue();
        }
        forget(pointer)?;
        forget(domain)
    }

    /// Values that belong to one domain.
    #[expect(dead_code, reason = "they are only dropped")]
    enum Part {
        Domain(Domain<Normal>),
        Guard(OwnedDownGuard<Normal>),
        Pointer(Shared),
        List(Pin<KBox<List<Counted, Normal>>>),
        Retired(Retired<Counted, Normal>),
    }

    #[test]
    fn handles_may_be_dropped_in_any_order() -> Result {
        in_every_order(4, |number| {
            let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
            let domain = domain()?;
            let pointer = pointer(&domain, &drops)?;
            let list = KBox::try_pin_init(new_list!(domain.clone()), GFP_KERNEL)?;
            drop(list.lock().push_back(item(&drops)?));
            let retired = pointer.lock().replace(item(&drops)?);

            let mut parts = KVec::with_capacity(4, GFP_KERNEL)?;
            parts.push(Part::Domain(domain), GFP_KERNEL)?;
            parts.push(Part::Pointer(pointer), GFP_KERNEL)?;
            parts.push(Part::List(list), GFP_KERNEL)?;
            parts.push(Part::Retired(retired), GFP_KERNEL)?;
            drop_in_order(parts, number);

            match drops.load(Relaxed) {
                3 => Ok(()),
                _ => Err(ENODATA),
            }
        })
    }

    #[test]
    fn guards_may_be_dropped_in_any_order() -> Result {
        let last = domain()?;
        for number in 0..orders(3) {
            let mut guards = KVec::with_capacity(3, GFP_KERNEL)?;
            for _ in 0..2 {
                let guard = last.clone().into_down_read();
                guards.push(Part::Guard(guard), GFP_KERNEL)?;
            }
            guards.push(Part::Domain(last.clone()), GFP_KERNEL)?;
            drop_in_order(guards, number);
        }
        last.synchronize();
        Ok(())
    }
}
