// SPDX-License-Identifier: GPL-2.0

//! The lists.

use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        Arc,
        LockClassKey, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use core::ptr::{
    self,
    NonNull, //
};

use super::{
    closed::Closed,
    item::{
        Item,
        NewItemError,
        Node, //
    },
    walk::{
        may_lock,
        Isolated,
        Status,
        Walk, //
    }, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        shrinker::{
            ScanControl,
            ShrinkControl,
            Shrinker, //
        },
        slab::Cache, //
    }, //
};

/// The maximum number of items per walk when lists are dropped.
const BATCH: usize = 1024;

/// The state that items share with their lists. It lives until the lists and all items are dropped.
///
/// # Invariants
///
/// - `raw` is initialised, and pinned until [`PinnedDrop`] runs.
/// - The lists contain [`Node`]s from `cache`, and own a reference to each.
#[pin_data(PinnedDrop)]
pub(super) struct Inner<T> {
    #[pin]
    raw: Opaque<bindings::list_lru>,
    cache: Cache<Node<T>>,
    /// The lock class of these lists. C has one class for all lists. With that class, lockdep would
    /// report a false deadlock for a lock that is both taken in a walk of other lists and held
    /// while these lists are used.
    _key: Pin<KBox<LockClassKey>>,
    gfp: Gfp,
    /// The lists accept no more items. Set before the last walk.
    pub(super) closed: Closed,
}

// SAFETY: Any task may destroy the lists and drop the values in them.
unsafe impl<T: Send> Send for Inner<T> {}

// SAFETY: C locks the lists. Any task may take values from the lists, and walks share the values.
unsafe impl<T: Send + Sync> Sync for Inner<T> {}

impl<T> Inner<T> {
    /// Returns the C lists.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::list_lru {
        self.raw.get()
    }

    /// Allocates memory for a node, and the list of the cgroup that is charged for the memory.
    pub(super) fn alloc(&self, gfp: Gfp) -> Result<NonNull<Node<T>>> {
        // SAFETY: The lists are initialised by the type invariants.
        unsafe { self.cache.alloc_lru(self.as_raw(), gfp | self.gfp) }
    }

    /// Frees the memory of a node.
    ///
    /// # Safety
    ///
    /// `node` must be from [`alloc()`](Self::alloc), and must not be used again.
    pub(super) unsafe fn free(&self, node: NonNull<Node<T>>) {
        // SAFETY: By the safety requirements.
        unsafe { self.cache.free(node) };
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Inner<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The lists are initialised by the type invariants. They are empty, as each node
        // holds a reference to `self`.
        unsafe { bindings::list_lru_destroy(self.as_raw()) };
    }
}

/// LRU lists, one for each NUMA node and memory cgroup.
///
/// The drop removes all items, and drops the items without other references. It then waits for
/// other walks of the lists. Remaining items cannot be added again.
pub struct ListLru<T: Send + Sync + 'static> {
    inner: Arc<Inner<T>>,
}

impl<T: Send + Sync + 'static> ListLru<T> {
    /// Creates the lists for a shrinker.
    ///
    /// The lists are per memory cgroup if the shrinker is
    /// [`MEMCG_AWARE`](crate::mm::shrinker::Flags::MEMCG_AWARE). In that case, the cgroup of the
    /// allocating task is charged for an item. `name` is the name in `/proc/slabinfo`, see
    /// [`Cache::new()`].
    ///
    /// Returns [`EINVAL`] if the shrinker is not
    /// [`NUMA_AWARE`](crate::mm::shrinker::Flags::NUMA_AWARE) or if the name is invalid, and
    /// [`ENOMEM`].
    ///
    /// Context: Process context. May sleep. C: `list_lru_init_memcg()` in
    /// `include/linux/list_lru.h`.
    pub fn new(name: &CStr, shrinker: &Shrinker) -> Result<Self> {
        if !shrinker.is_numa_aware() {
            return Err(EINVAL);
        }
        let is_memcg_aware = shrinker.is_memcg_aware();
        let gfp = if is_memcg_aware {
            Gfp::ACCOUNT
        } else {
            Gfp::NONE
        };
        let cache = Cache::reclaimable(name)?;
        let key = KBox::pin_init(LockClassKey::new_dynamic(), GFP_KERNEL)?;
        let empty = bindings::list_lru {
            #[cfg(CONFIG_LOCKDEP)]
            key: key.as_ptr(),
            ..Default::default()
        };
        let inner = Arc::pin_init(
            try_pin_init!(Inner {
                cache,
                _key: key,
                gfp,
                closed: Closed::new(),
                // This comes last: after an error in a later field, C would keep pointers to freed
                // memory.
                raw <- Opaque::try_ffi_init(|slot: *mut bindings::list_lru| {
                    // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`. C
                    // reads a field that exists only with lockdep.
                    unsafe { slot.write(empty) };
                    // SAFETY: As above. `slot` and the lock class do not move until `PinnedDrop`. C
                    // copies the data of the shrinker that it needs.
                    to_result(unsafe {
                        bindings::__list_lru_init(slot, is_memcg_aware, shrinker.as_raw())
                    })
                }),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self { inner })
    }

    /// Allocates an item that is on no list.
    ///
    /// Takes a reference to the lists, whose reference count all CPUs share.
    ///
    /// Returns an error with the value if memory is short, or if the cgroup of the task has reached
    /// its limit.
    ///
    /// Context: Process context. May sleep if `gfp` allows it. C: `kmem_cache_alloc_lru()` in
    /// `include/linux/slab.h`.
    pub fn alloc(&self, value: T, gfp: Gfp) -> Result<Item<T>, NewItemError<T>> {
        Item::new(&self.inner, value, gfp)
    }

    /// Returns the number of items on the list of the node and the cgroup in `control`.
    ///
    /// Context: Process context. Never sleeps. C: `list_lru_shrink_count()` in
    /// `include/linux/list_lru.h`.
    #[inline]
    pub fn shrink_count(&self, control: &ShrinkControl) -> usize {
        let control = control.as_raw();
        // SAFETY: The lists are initialised by the type invariants of `Inner`, and C passed
        // `control`.
        unsafe { bindings::list_lru_shrink_count(self.inner.as_raw(), control) }
    }

    /// Walks up to `nr_to_scan()` items of the node and the cgroup in `control`.
    ///
    /// `decide` is called for each item, unless with `CONFIG_PREEMPT_RT` 256 callbacks of walks are
    /// running: then the item is skipped. The list is locked meanwhile: `decide` must not sleep,
    /// allocate memory with flags that allow sleeping, or drop a [`ListLru`]. In `decide`, walking
    /// a [`ListLru`], and [adding](Item::add) or [deleting](Item::del) an item, does nothing,
    /// because two tasks could deadlock on each other's lists. The first such attempt prints an
    /// error to the log.
    ///
    /// Context: Process context. Never sleeps. C: `list_lru_shrink_walk()` in
    /// `include/linux/list_lru.h`.
    #[inline]
    pub fn shrink_walk(
        &self,
        control: &ScanControl,
        decide: impl FnMut(&T) -> Status,
    ) -> Isolated<T> {
        if !may_lock() {
            return Isolated::new();
        }
        Walk::run(decide, |isolate, arg| {
            // With rotation, C would walk the same list again and again with the list locked.
            let nr_to_scan = control.nr_to_scan().min(self.shrink_count(control));
            let mut left = nr_to_scan;
            let (nid, memcg) = control.target();
            // SAFETY:
            // - The lists are initialised by the type invariants of `Inner`.
            // - The node exists and the cgroup has a reference, as C passed them.
            // - `isolate` may be called with `arg` and nodes of `T`, and the lists contain such
            //   nodes by the type invariants of `Inner`.
            unsafe {
                bindings::list_lru_walk_one(
                    self.inner.as_raw(),
                    nid,
                    memcg,
                    isolate,
                    arg,
                    ptr::from_mut(&mut left),
                )
            };
            // OVERFLOW: C counts down from `nr_to_scan`.
            nr_to_scan.wrapping_sub(left)
        })
    }

    /// Returns the number of items on all lists.
    ///
    /// Context: Any context. Never sleeps. C: `list_lru_count()` in `include/linux/list_lru.h`.
    pub fn count(&self) -> usize {
        // SAFETY: The lists are initialised by the type invariants of `Inner`.
        unsafe { bindings::list_lru_count(self.inner.as_raw()) }
    }

    /// Walks up to `nr_to_walk` items, one list after the other.
    ///
    /// The walk is also limited to the [number](Self::count) of items, so it ends even if `decide`
    /// rotates each item. Otherwise behaves as [`shrink_walk()`](Self::shrink_walk).
    ///
    /// Context: Process context. Never sleeps. C: `list_lru_walk()` in `include/linux/list_lru.h`.
    pub fn walk(&self, nr_to_walk: usize, decide: impl FnMut(&T) -> Status) -> Isolated<T> {
        if !may_lock() {
            return Isolated::new();
        }
        self.walk_any(nr_to_walk, decide)
    }

    /// Walks items like [`walk()`](Self::walk), also in the callback of a walk.
    fn walk_any(&self, nr_to_walk: usize, decide: impl FnMut(&T) -> Status) -> Isolated<T> {
        Walk::run(decide, |isolate, arg| {
            // With rotation, C would walk the same list again and again with the list locked.
            let nr_to_walk = nr_to_walk.min(self.count());
            let mut left = nr_to_walk;
            // SAFETY: As in `shrink_walk()`.
            unsafe {
                bindings::list_lru_walk(self.inner.as_raw(), isolate, arg, ptr::from_mut(&mut left))
            };
            // OVERFLOW: C counts down from `nr_to_walk`.
            nr_to_walk.wrapping_sub(left)
        })
    }
}

/// May sleep.
impl<T: Send + Sync + 'static> Drop for ListLru<T> {
    fn drop(&mut self) {
        self.inner.closed.set();
        while self.count() != 0 {
            // No other task uses these lists, so none waits for them with other lists locked.
            if self.walk_any(BATCH, |_| Status::Isolate).is_empty() {
                // The other items are on the list of a dying cgroup, and will move to its parent's.
                // Or, with `CONFIG_PREEMPT_RT`, as many callbacks as possible are running.
                fsleep(Delta::from_millis(1));
            }
        }
    }
}

/// Items that the tests of this folder share.
#[cfg(kscale_kunit)]
pub(super) mod testing {
    use super::*;

    use crate::mm::shrinker::Flags;

    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    /// A value that counts its drops.
    pub(crate) struct Value {
        pub(crate) number: usize,
        drops: Arc<Atomic<usize>>,
    }

    impl Value {
        pub(crate) fn drops() -> Result<Arc<Atomic<usize>>> {
            Ok(Arc::new(Atomic::new(0), GFP_KERNEL)?)
        }

        pub(crate) fn new(number: usize, drops: &Arc<Atomic<usize>>) -> Self {
            Self {
                number,
                drops: drops.clone(),
            }
        }
    }

    impl Drop for Value {
        fn drop(&mut self) {
            self.drops.add(1, Relaxed);
        }
    }

    pub(crate) fn lists() -> Result<ListLru<Value>> {
        let shrinker = Shrinker::new(c"kunit", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)?;
        ListLru::new(c"kunit-lru", &shrinker)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_list_lru)]
mod tests {
    use super::{
        testing::Value,
        *, //
    };

    use crate::mm::shrinker::Flags;

    use kernel::sync::atomic::Relaxed;

    #[test]
    fn lists_are_per_node() -> Result {
        let shrinker = Shrinker::new(c"kunit", Flags::MEMCG_AWARE)?;
        let error = ListLru::<Value>::new(c"kunit-lru", &shrinker).err();
        assert_eq!(error, Some(EINVAL));

        let shrinker = Shrinker::new(c"kunit", Flags::NUMA_AWARE)?;
        let lru = ListLru::new(c"kunit-lru", &shrinker)?;
        assert!(lru.inner.gfp == Gfp::NONE);
        let drops = Value::drops()?;
        assert!(lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?.add());
        drop(lru);
        assert_eq!(drops.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn invalid_name_is_rejected() -> Result {
        let shrinker = Shrinker::new(c"kunit", Flags::NUMA_AWARE)?;
        let error = ListLru::<Value>::new(c"no such", &shrinker).err();
        assert_eq!(error, Some(EINVAL));
        Ok(())
    }

    #[test]
    fn drop_frees_many_items() -> Result {
        let (lru, drops) = (testing::lists()?, Value::drops()?);
        for number in 0..BATCH + 1 {
            lru.alloc(Value::new(number, &drops), Gfp::KERNEL)?.add();
        }

        drop(lru);

        assert_eq!(drops.load(Relaxed), BATCH + 1);
        Ok(())
    }

    #[test]
    fn list_can_be_leaked() -> Result {
        let (lru, drops) = (testing::lists()?, Value::drops()?);
        lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?.add();

        crate::testing::leak::forget(lru)?;

        assert_eq!(drops.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn nodes_go_back_to_their_cache() -> Result {
        let (lru, drops) = (testing::lists()?, Value::drops()?);
        let inner = lru.inner.clone();
        assert_eq!(inner.cache.live(), 0);

        let first = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        let second = lru.alloc(Value::new(2, &drops), Gfp::KERNEL)?;
        assert_eq!(inner.cache.live(), 2);
        drop(first);
        assert_eq!(inner.cache.live(), 1);
        assert!(second.add());
        drop(second);
        assert_eq!(inner.cache.live(), 1);

        drop(lru);
        assert_eq!(inner.cache.live(), 0);
        // No item holds a reference.
        assert!(Arc::into_unique_or_drop(inner).is_some());
        Ok(())
    }

    #[test]
    fn items_are_charged_to_the_cgroup() -> Result {
        let aware = Shrinker::new(c"kunit", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)?;
        let lru = ListLru::<Value>::new(c"kunit-lru", &aware)?;

        let expected = if aware.is_memcg_aware() {
            Gfp::ACCOUNT
        } else {
            Gfp::NONE
        };
        assert!(lru.inner.gfp == expected);
        Ok(())
    }

    #[test]
    fn empty_list_counts_zero() -> Result {
        let lru = testing::lists()?;

        let walk = lru.walk(usize::MAX, |_| Status::Isolate);
        assert!(walk.is_empty());
        assert_eq!((walk.len(), walk.scanned(), lru.count()), (0, 0, 0));
        assert_eq!(walk.count(), 0);
        Ok(())
    }

    /// Checks only that no item is lost: the test does not wait for other tasks.
    #[test]
    fn items_are_added_and_removed_on_all_cpus() -> Result {
        const ROUNDS: usize = 300;
        let drops = Value::drops()?;
        let shared = Arc::new((testing::lists()?, drops.clone()), GFP_KERNEL)?;

        let tasks = crate::percpu::testing::on_all_cpus(&shared, |(lru, drops)| {
            for number in 0..ROUNDS {
                let Ok(item) = lru.alloc(Value::new(number, drops), Gfp::KERNEL) else {
                    // Count a failed allocation as a drop.
                    drop(Value::new(number, drops));
                    continue;
                };
                item.add();
                match number % 4 {
                    0 => drop(item.del()),
                    1 => drop(lru.walk(2, |_| Status::Isolate)),
                    2 => {
                        let isolated = lru.walk(3, |_| Status::Isolate);
                        // Add the item again before `isolated` returns it.
                        item.add();
                        drop(isolated);
                    }
                    _ => drop(lru.walk(1, |_| Status::Rotate)),
                }
            }
        })?;
        let inner = shared.0.inner.clone();
        drop(shared);

        // CAST: To 64 bits.
        assert_eq!(drops.load(Relaxed) as u64, tasks * ROUNDS as u64);
        assert_eq!(inner.cache.live(), 0);
        Ok(())
    }
}
