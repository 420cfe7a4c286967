// SPDX-License-Identifier: GPL-2.0

//! The registration of callbacks.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use super::{
    builder::Shrinker,
    callbacks::{
        count_objects,
        is_in_callback,
        scan_objects,
        Callbacks, //
    }, //
};

use crate::{
    bindings,
    module::teardown::{
        self,
        Teardown,
        TeardownId, //
    }, //
};

/// The registration of [`Callbacks`]. The kernel calls them until it is dropped.
///
/// Dropping a registration waits for running callbacks: the caller must not hold a lock that a
/// callback waits for. The kernel calls the callbacks of a leaked registration until their module
/// is unloaded.
///
/// # Dropped in a callback
///
/// A registration that is dropped in a callback, of its own or of another shrinker, would deadlock:
/// it would wait for itself, or for another callback that waits for this task to free memory. The
/// drop prints an error to the log and leaks the registration instead. The drop detects a callback
/// by `PF_MEMALLOC`, so a drop by any other task with this flag leaks the registration, too. Types
/// cannot prevent this: a callback can take a registration out of a lock.
///
/// # Invariants
///
/// `shrinker` is registered, unless the module notifier is running the cleanup of `teardown`.
#[must_use = "the callbacks are called no more once it is dropped"]
pub struct Registration<T: Callbacks> {
    #[cfg_attr(not(any(kscale_kunit, kscale_bench)), expect(dead_code))]
    shrinker: NonNull<bindings::shrinker>,
    teardown: TeardownId,
    _callbacks: PhantomData<Arc<T>>,
}

// SAFETY: Any task may drop a registration, and the `Arc` in it.
unsafe impl<T: Callbacks> Send for Registration<T> {}

// SAFETY: A `&Registration` gives access to no data.
unsafe impl<T: Callbacks> Sync for Registration<T> {}

impl<T: Callbacks> Registration<T> {
    /// Registers a shrinker, see [`Shrinker::register()`].
    pub(super) fn new(shrinker: Shrinker, callbacks: Arc<T>) -> Result<Self> {
        if is_in_callback() {
            return Err(EDEADLK);
        }
        if !teardown::is_in_module::<KBox<Instance<T>>>() {
            pr_err!("shrinker: callbacks must belong to the module that registers them\n");
            return Err(EINVAL);
        }

        let callbacks = teardown::unless_closed::<KBox<Instance<T>>, _>(callbacks)?;
        let instance = KBox::new_uninit(GFP_KERNEL)?;
        let data: *const T = &*callbacks;
        let shrinker = shrinker.into_raw();
        let raw = shrinker.as_ptr();
        // SAFETY: C does not read the field before the registration below.
        unsafe { (*raw).private_data = data.cast_mut().cast() };
        // SAFETY: As above.
        unsafe { (*raw).count_objects = Some(count_objects::<T>) };
        // SAFETY: As above.
        unsafe { (*raw).scan_objects = Some(scan_objects::<T>) };
        let instance = KBox::write(
            instance,
            Instance {
                shrinker,
                callbacks,
            },
        );
        // SAFETY: The shrinker is from `shrinker_alloc()` and not registered yet, by the type
        // invariants of `Shrinker`. Its functions are for a `T`, and so is `data`. The instance
        // keeps the `T` until the shrinker is unregistered.
        unsafe { bindings::shrinker_register(raw) };
        // SAFETY: Checked above, and the shrinker is registered.
        let teardown = unsafe { teardown::register(instance) }?;
        // INVARIANT: Just registered.
        Ok(Self {
            shrinker,
            teardown,
            _callbacks: PhantomData,
        })
    }

    /// Calls both callbacks once with `nr_to_scan` objects to scan, as memory reclaim does.
    ///
    /// Returns the C return value of the last callback that was called. Only in test builds and for
    /// benchmarks.
    ///
    /// Context: Process context. May sleep if the callbacks do.
    #[cfg(any(kscale_kunit, kscale_bench))]
    #[inline]
    pub fn call_back(&self, nr_to_scan: usize) -> usize {
        use super::{
            callbacks::as_in_reclaim,
            Count, //
        };

        let shrinker = self.shrinker.as_ptr();
        let mut control = bindings::shrink_control {
            gfp_mask: bindings::GFP_KERNEL,
            // SAFETY: `numa_node()` has no preconditions.
            nid: unsafe { bindings::numa_node() },
            ..Default::default()
        };

        as_in_reclaim(|| {
            // SAFETY: The shrinker exists by the type invariants.
            let count = unsafe { (*shrinker).count_objects };
            // SAFETY: `register()` has set the callback.
            let count = unsafe { count.unwrap_unchecked() };
            // SAFETY: The shrinker is registered, and C calls back in the same way.
            let count = unsafe { count(shrinker, &raw mut control) };
            if count == 0 || count == Count::EMPTY.into_raw() {
                return count;
            }
            control.nr_to_scan = nr_to_scan;
            control.nr_scanned = nr_to_scan;
            // SAFETY: The shrinker exists by the type invariants.
            let scan = unsafe { (*shrinker).scan_objects };
            // SAFETY: `register()` has set the callback.
            let scan = unsafe { scan.unwrap_unchecked() };
            // SAFETY: As above.
            unsafe { scan(shrinker, &raw mut control) }
        })
    }

    /// Returns the C shrinker.
    #[cfg(kscale_kunit)]
    pub(crate) fn raw(&self) -> *mut bindings::shrinker {
        self.shrinker.as_ptr()
    }
}

impl<T: Callbacks> Drop for Registration<T> {
    fn drop(&mut self) {
        if is_in_callback() {
            pr_err!("shrinker: registration dropped in a callback, leaking it\n");
            return;
        }
        self.teardown.end();
    }
}

/// The state of a registration, which lives while C may call back.
struct Instance<T: Callbacks> {
    shrinker: NonNull<bindings::shrinker>,
    /// The target of `private_data` in C. Keeps the callbacks alive, and is never read.
    #[expect(dead_code, reason = "keeps what C has a pointer to")]
    callbacks: Arc<T>,
}

// SAFETY: C calls `count_objects()` and `scan_objects()`. Any task may unregister a shrinker, and
// drop the `Arc`.
unsafe impl<T: Callbacks> Teardown for KBox<Instance<T>> {
    type OwnerModule = T::OwnerModule;

    fn callbacks() -> impl AsRef<[usize]> {
        [
            count_objects::<T> as *const () as usize,
            scan_objects::<T> as *const () as usize,
        ]
    }

    /// Unregisters the shrinker, and waits for running callbacks.
    unsafe fn stop(instance: &Instance<T>) {
        // SAFETY: The shrinker was registered before `teardown::register()`, and this is called
        // once.
        unsafe { bindings::shrinker_free(instance.shrinker.as_ptr()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_shrinker)]
mod tests {
    use super::{
        super::{
            callbacks::as_in_reclaim,
            Count,
            Flags,
            Scan,
            ScanControl,
            ShrinkControl, //
        },
        *, //
    };

    use kernel::{
        ffi::c_ulong,
        new_mutex,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Mutex, //
        }, //
    };

    use core::num::NonZeroU32;

    use crate::{
        mm::gfp::Gfp,
        module::cleanup::{
            self,
            testing::EmptyModule, //
        }, //
    };

    /// A cache that consists of an object count.
    #[pin_data]
    struct Cache {
        objects: Atomic<usize>,
        calls: Atomic<usize>,
        /// The arguments of the last scan: node, cgroup, may start I/O, may call into file systems.
        asked: Atomic<u32>,
        /// The number of calls without `PF_MEMALLOC`.
        outside: Atomic<usize>,
        /// A registration to drop in the next callback.
        #[pin]
        registration: Mutex<Option<Registration<Cache>>>,
    }

    impl Cache {
        fn new(objects: usize) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    objects: Atomic::new(objects),
                    calls: Atomic::new(0),
                    asked: Atomic::new(0),
                    outside: Atomic::new(0),
                    registration <- new_mutex!(None),
                }),
                GFP_KERNEL,
            )
        }

        fn called(&self) {
            self.calls.add(1, Relaxed);
            if !is_in_callback() {
                self.outside.add(1, Relaxed);
            }
            drop(self.registration.lock().take());
        }
    }

    #[vtable]
    impl Callbacks for Cache {
        fn count_objects(&self, control: &ShrinkControl) -> Count {
            self.called();
            match control.nid() {
                0 => Count::new(self.objects.load(Relaxed)),
                _ => Count::UNKNOWN,
            }
        }

        fn scan_objects(&self, control: &ScanControl) -> Scan {
            self.called();
            let asked = [
                control.nid(),
                u32::from(!control.target().1.is_null()),
                u32::from(control.may_io()),
                u32::from(control.may_fs()),
            ];
            self.asked
                .store(asked.iter().fold(0, |all, one| all << 4 | one), Relaxed);
            match control.nr_to_scan() {
                // Reports twice the requested number, from 100 on.
                100.. => Scan::freed_of(2 * control.nr_to_scan(), 2 * control.nr_to_scan()),
                // Reports 10 scanned objects.
                10.. => Scan::freed_of(7, 10),
                1.. => Scan::freed(1),
                0 => Scan::STOP,
            }
        }
    }

    fn shrinker() -> Result<Shrinker> {
        Shrinker::new(c"kunit", Flags::NONE)
    }

    /// Calls the C callback `count_objects`.
    fn count<T: Callbacks>(
        registration: &Registration<T>,
        control: &mut bindings::shrink_control,
    ) -> c_ulong {
        // SAFETY: The shrinker is registered.
        let Some(count_objects) = (unsafe { (*registration.raw()).count_objects }) else {
            return 0xbad;
        };
        // SAFETY: The call is the same as in C.
        unsafe { count_objects(registration.raw(), control) }
    }

    /// Calls the C callback `scan_objects`.
    fn scan<T: Callbacks>(
        registration: &Registration<T>,
        control: &mut bindings::shrink_control,
    ) -> c_ulong {
        // SAFETY: The shrinker is registered.
        let Some(scan_objects) = (unsafe { (*registration.raw()).scan_objects }) else {
            return 0xbad;
        };
        // SAFETY: The call is the same as in C.
        unsafe { scan_objects(registration.raw(), control) }
    }

    /// The kernel warns of an allocation of more than 4 MiB.
    #[test]
    fn long_names_are_refused() -> Result {
        for (len, error) in [(116, None), (117, Some(EINVAL)), (5 << 20, Some(EINVAL))] {
            let mut bytes = KVVec::from_elem(b'a', len, GFP_KERNEL)?;
            bytes.push(0, GFP_KERNEL)?;
            let name = CStr::from_bytes_with_nul(&bytes).map_err(|_| EINVAL)?;
            assert_eq!(Shrinker::new(name, Flags::NONE).err(), error);
        }
        Ok(())
    }

    #[test]
    fn callback_results_reach_c() -> Result {
        let cache = Cache::new(5)?;
        let registration = shrinker()?.register(cache.clone())?;
        let mut control = bindings::shrink_control::default();

        assert_eq!(count(&registration, &mut control), 5);
        cache.objects.store(0, Relaxed);
        assert_eq!(count(&registration, &mut control), Count::EMPTY.into_raw());
        control.nid = 1;
        assert_eq!(as_in_reclaim(|| count(&registration, &mut control)), 0);
        assert_eq!(cache.calls.load(Relaxed), 3);
        Ok(())
    }

    #[test]
    fn nr_scanned_is_reported() -> Result {
        const STOP: c_ulong = c_ulong::MAX;
        // To scan, freed, scanned.
        const ROWS: [(c_ulong, c_ulong, c_ulong); 6] = [
            (0, STOP, 0),
            (1, 1, 1),
            // The default of C: the requested number.
            (9, 1, 9),
            (10, 7, 10),
            (99, 7, 10),
            (100, 200, 200),
        ];
        let registration = shrinker()?.register(Cache::new(1)?)?;

        for (nr_to_scan, freed, nr_scanned) in ROWS {
            let mut control = bindings::shrink_control {
                nr_to_scan,
                nr_scanned: nr_to_scan,
                ..Default::default()
            };
            assert_eq!(scan(&registration, &mut control), freed);
            assert_eq!(control.nr_scanned, nr_scanned);
            assert_eq!(control.nr_to_scan, nr_to_scan);
        }
        Ok(())
    }

    #[test]
    fn callbacks_see_the_shrink_control() -> Result {
        // Node, flags, arguments that the callback got.
        const ROWS: [(i32, Gfp, u32); 4] = [
            (0, Gfp::KERNEL, 0x0011),
            (1, Gfp::NOFS, 0x1010),
            (2, Gfp::NOIO, 0x2000),
            (15, Gfp::NOWAIT, 0xf000),
        ];
        let cache = Cache::new(1)?;
        let registration = shrinker()?.register(cache.clone())?;

        for (nid, gfp, saw) in ROWS {
            let mut control = bindings::shrink_control {
                gfp_mask: gfp.as_raw(),
                nid,
                ..Default::default()
            };
            as_in_reclaim(|| scan(&registration, &mut control));
            assert_eq!(cache.asked.load(Relaxed), saw);
        }
        Ok(())
    }

    #[test]
    fn impossible_nodes_count_zero() -> Result {
        let cache = Cache::new(5)?;
        let registration = shrinker()?.register(cache.clone())?;
        // This node is impossible on all test machines.
        let mut control = bindings::shrink_control {
            nid: 15,
            nr_to_scan: 5,
            ..Default::default()
        };

        assert_eq!(count(&registration, &mut control), 0);
        assert_eq!(scan(&registration, &mut control), 0);
        assert_eq!(cache.calls.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn callbacks_run_with_lockdep_reclaim_state() -> Result {
        let cache = Cache::new(1)?;
        let registration = shrinker()?.register(cache.clone())?;
        let mut control = bindings::shrink_control::default();

        count(&registration, &mut control);
        scan(&registration, &mut control);
        assert!(!is_in_callback());
        as_in_reclaim(|| count(&registration, &mut control));
        as_in_reclaim(|| scan(&registration, &mut control));

        assert!(!is_in_callback());
        assert_eq!(cache.calls.load(Relaxed), 4);
        assert_eq!(cache.outside.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn drop_frees_the_callbacks() -> Result {
        let cache = Cache::new(1)?;

        drop(shrinker()?.register(cache.clone())?);

        // The registration dropped its reference.
        assert!(Arc::into_unique_or_drop(cache).is_some());
        Ok(())
    }

    #[test]
    fn registration_dropped_in_a_callback_is_leaked() -> Result {
        let (own, other) = (Cache::new(3)?, Cache::new(4)?);
        let mut control = bindings::shrink_control::default();
        let registration = shrinker()?.register(own.clone())?;
        let of_other = shrinker()?.register(other.clone())?;
        // A copy that the test can still call after the drop of the original.
        //
        // SAFETY: The original is leaked below: only the copy ends the registration.
        let same = core::mem::ManuallyDrop::new(unsafe { core::ptr::read(&registration) });

        *own.registration.lock() = Some(registration);
        assert_eq!(count(&same, &mut control), 3);
        assert!(own.registration.lock().is_none());
        assert_eq!(count(&same, &mut control), 3);

        // The registration leaked, so dropping `same` in its place is fine.
        *other.registration.lock() = Some(core::mem::ManuallyDrop::into_inner(same));
        scan(&of_other, &mut control);
        assert!(other.registration.lock().is_none());
        assert_eq!(own.calls.load(Relaxed), 2);
        Ok(())
    }

    #[test]
    fn registration_fails_in_reclaim() -> Result {
        let (registered, dropped) = (shrinker()?, shrinker()?);
        let stay = [registered.as_raw(), dropped.as_raw()];
        let cache = Cache::new(1)?;

        let error = as_in_reclaim(|| shrinker().err());
        assert_eq!(error, Some(EDEADLK));
        let error = as_in_reclaim(|| registered.register(cache.clone()).err());
        assert_eq!(error, Some(EDEADLK));
        as_in_reclaim(|| drop(dropped));

        assert!(Arc::into_unique_or_drop(cache).is_some());
        for raw in stay {
            // SAFETY: The shrinker is not registered, and has no other owner.
            unsafe { bindings::shrinker_free(raw) };
        }
        Ok(())
    }

    #[test]
    fn shrinker_is_configured_before_registration() -> Result {
        let shrinker = Shrinker::new(c"kunit", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)?;
        // SAFETY: The shrinker exists by the type invariants.
        let (seeks, batch) = unsafe { ((*shrinker.as_raw()).seeks, (*shrinker.as_raw()).batch) };
        assert_eq!(seeks, 2);
        assert_eq!(batch, 0);
        assert!(cfg!(CONFIG_MEMCG) || !shrinker.is_memcg_aware());

        let shrinker = shrinker.set_seeks(u16::MAX).set_batch(NonZeroU32::MAX);
        let registration = shrinker.register(Cache::new(1)?)?;
        // SAFETY: The shrinker is registered.
        let raw = unsafe { &*registration.raw() };
        assert_eq!(raw.seeks, 65535);
        assert_eq!(raw.batch, i64::from(u32::MAX) as isize);
        assert!(raw.flags & bindings::SHRINKER_NUMA_AWARE != 0);
        Ok(())
    }

    #[test]
    fn unregistered_shrinker_is_freed() -> Result {
        assert!(!shrinker()?.is_memcg_aware());
        Ok(())
    }

    #[test]
    fn registration_can_be_leaked() -> Result {
        core::mem::forget(shrinker()?.register(Cache::new(1)?)?);
        Ok(())
    }

    /// Callbacks with an `OwnerModule` that does not contain their code.
    struct Foreign;

    #[vtable]
    impl Callbacks for Foreign {
        type OwnerModule = EmptyModule;

        fn count_objects(&self, _: &ShrinkControl) -> Count {
            Count::EMPTY
        }

        fn scan_objects(&self, _: &ScanControl) -> Scan {
            Scan::STOP
        }
    }

    #[test]
    fn code_of_another_module_is_rejected() -> Result {
        let foreign = Arc::new(Foreign, GFP_KERNEL)?;

        let error = shrinker()?.register(foreign.clone()).err();

        assert_eq!(error, Some(EINVAL));
        assert!(Arc::into_unique_or_drop(foreign).is_some());
        Ok(())
    }

    #[test]
    fn failed_cleanup_record_drops_the_callbacks() -> Result {
        let cache = Cache::new(1)?;

        let error = cleanup::ADD
            .fail(|| shrinker()?.register(cache.clone()).map(drop))
            .err();

        assert_eq!(error, Some(ENOMEM));
        // The failed registration dropped its reference.
        assert!(Arc::into_unique_or_drop(cache).is_some());
        Ok(())
    }

    /// Returns the flags, the seeks and the batch of the C shrinker.
    fn setup(shrinker: &Shrinker) -> (u32, i32, isize) {
        // SAFETY: The shrinker exists by the type invariants.
        let raw = unsafe { &*shrinker.as_raw() };
        (raw.flags, raw.seeks, raw.batch)
    }

    #[test]
    fn requested_flags_are_set() -> Result {
        const FLAGS: u32 = bindings::SHRINKER_NUMA_AWARE | bindings::SHRINKER_MEMCG_AWARE;
        // Without memory cgroups, C clears their flags.
        let memcg = Shrinker::new(c"kunit", Flags::MEMCG_AWARE)?;
        let memcg_flags = if memcg.is_memcg_aware() {
            FLAGS
        } else {
            bindings::SHRINKER_NUMA_AWARE
        };
        let rows = [
            (Flags::NONE, 0),
            (Flags::NUMA_AWARE, bindings::SHRINKER_NUMA_AWARE),
            (Flags::MEMCG_AWARE, bindings::SHRINKER_MEMCG_AWARE),
            (Flags::MEMCG_AWARE | Flags::NUMA_AWARE, FLAGS),
        ];

        for (flags, expected) in rows {
            let shrinker = Shrinker::new(c"kunit", flags)?;
            let (found, ..) = setup(&shrinker);
            assert_eq!(found & memcg_flags, expected & memcg_flags);
            assert_eq!(
                shrinker.is_numa_aware(),
                expected & bindings::SHRINKER_NUMA_AWARE != 0
            );
        }
        Ok(())
    }

    #[test]
    fn setters_change_one_field() -> Result {
        let (flags, seeks, batch) = setup(&shrinker()?);

        let few = shrinker()?.set_seeks(seeks as u16 + 5);
        assert_eq!(setup(&few), (flags, seeks + 5, batch));
        let many = shrinker()?.set_batch(NonZeroU32::MIN);
        assert_eq!(setup(&many), (flags, seeks, 1));
        let none = shrinker()?.set_seeks(0);
        assert_eq!(setup(&none), (flags, 0, batch));
        Ok(())
    }
}
