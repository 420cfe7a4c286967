// SPDX-License-Identifier: GPL-2.0

//! Callbacks, and their registration.

use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::Arc, //
};

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use crate::module::teardown::{
    self,
    Teardown,
    TeardownId, //
};

use super::state::{
    self,
    is_in_callback,
    Header, //
};

/// Callbacks for CPUs that come online and go offline.
///
/// See the [module documentation](super) for their context.
#[vtable]
pub trait Callbacks: Send + Sync + 'static {
    /// Called when `cpu` has come online, and for each online CPU at registration.
    ///
    /// An error refuses the CPU: it goes offline again, and the task that requested it online gets
    /// the error. At registration an error makes the registration fail.
    /// [`offline()`](Self::offline) is then not called for this CPU.
    ///
    /// Also called after [`offline()`](Self::offline) if the CPU could not go offline after all. An
    /// error here makes the kernel warn, and the next call for this CPU is
    /// [`offline()`](Self::offline).
    ///
    /// Context: Process context. May sleep. Runs on `cpu`, with the CPU hotplug lock held.
    fn online(&self, cpu: CpuId) -> Result {
        let _ = cpu;
        Ok(())
    }

    /// Called when `cpu` is about to go offline, and for each online CPU at unregistration.
    ///
    /// Context: Process context. May sleep. Runs on `cpu`, with the CPU hotplug lock held.
    fn offline(&self, cpu: CpuId) {
        let _ = cpu;
    }
}

/// A registration of [`Callbacks`]; dropping it unregisters them.
///
/// A leaked registration calls them until the module that implements them is unloaded.
pub struct Registration<T: Callbacks> {
    teardown: TeardownId,
    _callbacks: PhantomData<Arc<T>>,
}

impl<T: Callbacks> Registration<T> {
    /// Calls [`Callbacks::online()`] for all online CPUs, and registers the callbacks.
    ///
    /// Fails with the error of the first call that fails, or [`EIO`] for an error that user space
    /// does not have; [`Callbacks::offline()`] is then called for the earlier CPUs. Fails with
    /// [`ENOMEM`] if there is no memory. Fails with [`EDEADLK`] in a callback. Fails with
    /// [`EINVAL`] if the code of the callbacks is not in the module that implements [`Callbacks`].
    /// Fails with [`ENODEV`] during the unload of a module that keeps making registrations.
    ///
    /// Context: Process context. May sleep. Waits until no CPU is coming online or going offline,
    /// and for all calls. C: `cpuhp_state_add_instance()` in `include/linux/cpuhotplug.h`.
    pub fn new(callbacks: Arc<T>) -> Result<Self> {
        if is_in_callback() {
            return Err(EDEADLK);
        }
        if !teardown::is_in_module::<KBox<Instance<T>>>() {
            pr_err!("cpuhp: callbacks must belong to the module that registers them\n");
            return Err(EINVAL);
        }

        let callbacks = teardown::unless_closed::<KBox<Instance<T>>, _>(callbacks)?;
        let instance = KBox::new(
            Instance {
                header: Header::new(online::<T>, offline::<T>),
                callbacks,
            },
            GFP_KERNEL,
        )?;
        // SAFETY:
        // - The node is in no list. It does not move, and is freed only after `stop()`.
        // - The header is that of an `Instance<T>`, and its functions are for this type.
        unsafe { state::add(NonNull::from(&*instance).cast()) }?;
        // SAFETY: Checked above, and the instance is linked.
        let teardown = unsafe { teardown::register(instance) }?;
        Ok(Self {
            teardown,
            _callbacks: PhantomData,
        })
    }
}

impl<T: Callbacks> Drop for Registration<T> {
    /// Calls [`Callbacks::offline()`] for all online CPUs, and unregisters.
    fn drop(&mut self) {
        if is_in_callback() {
            // A wait here would wait for this callback (deadlock).
            pr_err!("cpuhp: registration dropped in a callback, leaking it\n");
            return;
        }
        self.teardown.end();
    }
}

/// A registration, as C's list refers to it.
#[repr(C)]
struct Instance<T: Callbacks> {
    header: Header,
    callbacks: Arc<T>,
}

// SAFETY: C calls `online()` and `offline()`. Any task may unlink an instance, and drop its `Arc`.
unsafe impl<T: Callbacks> Teardown for KBox<Instance<T>> {
    type OwnerModule = T::OwnerModule;

    fn callbacks() -> impl AsRef<[usize]> {
        [
            online::<T> as *const () as usize,
            offline::<T> as *const () as usize,
        ]
    }

    /// Unlinks the instance. C calls `offline()` for the online CPUs, and no callback after that.
    unsafe fn stop(instance: &Instance<T>) {
        // SAFETY: The instance was linked before `teardown::register()`, and this is called once.
        unsafe { state::remove(NonNull::from(instance).cast()) };
    }
}

/// Calls [`Callbacks::online()`].
///
/// # Safety
///
/// `header` must be that of an [`Instance<T>`].
unsafe fn online<T: Callbacks>(header: NonNull<Header>, cpu: CpuId) -> Result {
    // SAFETY: By the safety requirements.
    unsafe { header.cast::<Instance<T>>().as_ref() }
        .callbacks
        .online(cpu)
}

/// Calls [`Callbacks::offline()`].
///
/// # Safety
///
/// As for [`online()`].
unsafe fn offline<T: Callbacks>(header: NonNull<Header>, cpu: CpuId) {
    // SAFETY: By the safety requirements.
    unsafe { header.cast::<Instance<T>>().as_ref() }
        .callbacks
        .offline(cpu);
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_cpuhp)]
mod tests {
    use super::*;

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Mutex, //
    };

    use crate::{
        module::cleanup::{
            self,
            testing::EmptyModule, //
        },
        percpu::{
            possible_cpus,
            PerCpu, //
        }, //
    };

    /// Counts the calls.
    #[pin_data]
    struct Log {
        online: PerCpu<Atomic<i32>>,
        offline: PerCpu<Atomic<i32>>,
        on_another_cpu: Atomic<i32>,
        /// Calls of `online()` that succeed before one fails.
        until_failure: Atomic<i32>,
        /// The error that a callback got for its own registration.
        nested: Atomic<i32>,
        /// A registration that the next callback drops.
        #[pin]
        registration: Mutex<Option<Registration<Log>>>,
    }

    impl Log {
        fn new(until_failure: i32) -> Result<Arc<Self>> {
            let zeros = || PerCpu::new(|_| Ok(Atomic::new(0)));
            Arc::pin_init(
                try_pin_init!(Self {
                    online: zeros()?,
                    offline: zeros()?,
                    on_another_cpu: Atomic::new(0),
                    until_failure: Atomic::new(until_failure),
                    nested: Atomic::new(0),
                    registration <- kernel::new_mutex!(None),
                }),
                GFP_KERNEL,
            )
        }

        fn count(&self, calls: &PerCpu<Atomic<i32>>, cpu: CpuId) {
            if let Some(calls) = calls.per_cpu(cpu) {
                calls.add(1, Relaxed);
            }
            if cpu != CpuId::current() {
                self.on_another_cpu.add(1, Relaxed);
            }
            drop(self.registration.lock().take());
        }
    }

    #[vtable]
    impl Callbacks for Log {
        fn online(&self, cpu: CpuId) -> Result {
            if self.until_failure.fetch_sub(1, Relaxed) == 0 {
                return Err(EBUSY);
            }
            self.count(&self.online, cpu);
            Ok(())
        }

        fn offline(&self, cpu: CpuId) {
            self.count(&self.offline, cpu);
        }
    }

    /// Registers again in a callback.
    struct Nesting(Atomic<i32>);

    #[vtable]
    impl Callbacks for Nesting {
        fn online(&self, _: CpuId) -> Result {
            // The allocation may sleep, as callbacks may.
            let nested = Arc::new(Nesting(Atomic::new(0)), GFP_KERNEL).map(Registration::new)?;
            let error = nested.err().map_or(0, |error| error.to_errno());
            self.0.store(error, Relaxed);
            Ok(())
        }
    }

    /// Fails with an error that a write to sysfs must not return.
    struct Internal;

    #[vtable]
    impl Callbacks for Internal {
        fn online(&self, _: CpuId) -> Result {
            Err(EIOCBQUEUED)
        }
    }

    #[test]
    fn internal_errors_of_callbacks_are_replaced() -> Result {
        let result = Registration::new(Arc::new(Internal, GFP_KERNEL)?);

        assert_eq!(result.err(), Some(EIO));
        Ok(())
    }

    fn total(calls: &PerCpu<Atomic<i32>>) -> i32 {
        calls.iter().map(|(_, calls)| calls.load(Relaxed)).sum()
    }

    #[test]
    fn failed_cleanup_record_unregisters_the_callbacks() -> Result {
        let log = Log::new(i32::MAX)?;

        let result = cleanup::ADD.fail(|| Registration::new(log.clone()));
        assert_eq!(result.err(), Some(ENOMEM));
        assert!(total(&log.online) > 0);
        assert_eq!(total(&log.offline), total(&log.online));
        // The failed registration has dropped its reference.
        assert!(Arc::into_unique_or_drop(log).is_some());
        Ok(())
    }

    #[test]
    fn callback_runs_once_on_each_cpu() -> Result {
        let log = Log::new(i32::MAX)?;

        let registration = Registration::new(log.clone())?;
        // A test runs on an online CPU.
        assert!(total(&log.online) > 0);
        assert!(log.online.iter().all(|(_, calls)| calls.load(Relaxed) <= 1));
        assert_eq!(total(&log.offline), 0);
        drop(registration);

        for cpu in possible_cpus() {
            let calls = |of: &PerCpu<Atomic<i32>>| of.per_cpu(cpu).map(|calls| calls.load(Relaxed));
            assert_eq!(calls(&log.online), calls(&log.offline));
        }
        assert_eq!(log.on_another_cpu.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn failed_callback_fails_the_registration() -> Result {
        let all = Log::new(i32::MAX)?;
        drop(Registration::new(all.clone())?);

        for until_failure in 0..total(&all.online) {
            let log = Log::new(until_failure)?;

            let result = Registration::new(log.clone());

            assert_eq!(result.err(), Some(EBUSY));
            assert_eq!(total(&log.online), until_failure);
            // `offline()` was called for each CPU whose `online()` succeeded.
            assert_eq!(total(&log.offline), until_failure);
        }
        Ok(())
    }

    #[test]
    fn registrations_are_independent() -> Result {
        let (first, second) = (Log::new(i32::MAX)?, Log::new(i32::MAX)?);

        let of_first = Registration::new(first.clone())?;
        let of_second = Registration::new(second.clone())?;
        drop(of_first);

        assert_eq!(total(&first.offline), total(&first.online));
        assert_eq!(total(&second.offline), 0);
        drop(of_second);
        assert_eq!(total(&second.offline), total(&second.online));
        Ok(())
    }

    #[test]
    fn drop_frees_the_callbacks() -> Result {
        let log = Log::new(i32::MAX)?;

        drop(Registration::new(log.clone())?);

        // The registration has dropped its reference.
        assert!(Arc::into_unique_or_drop(log).is_some());
        Ok(())
    }

    #[test]
    fn a_callback_cannot_register() -> Result {
        let nesting = Arc::new(Nesting(Atomic::new(0)), GFP_KERNEL)?;

        drop(Registration::new(nesting.clone())?);

        assert_eq!(nesting.0.load(Relaxed), EDEADLK.to_errno());
        Ok(())
    }

    #[test]
    fn registration_dropped_in_a_callback_is_leaked() -> Result {
        let (log, other) = (Log::new(i32::MAX)?, Log::new(i32::MAX)?);
        let registration = Registration::new(log.clone())?;
        *other.registration.lock() = Some(registration);

        drop(Registration::new(other.clone())?);

        assert!(other.registration.lock().is_none());
        assert_eq!(total(&log.offline), 0);
        Ok(())
    }

    #[test]
    fn registration_can_be_leaked() -> Result {
        core::mem::forget(Registration::new(Log::new(i32::MAX)?)?);
        Ok(())
    }

    /// Names another module than the module of its code.
    struct Foreign(Atomic<i32>);

    #[vtable]
    impl Callbacks for Foreign {
        type OwnerModule = EmptyModule;

        fn online(&self, _: CpuId) -> Result {
            self.0.add(1, Relaxed);
            Ok(())
        }
    }

    #[test]
    fn code_of_another_module_is_rejected() -> Result {
        let foreign = Arc::new(Foreign(Atomic::new(0)), GFP_KERNEL)?;

        let result = Registration::new(foreign.clone());

        assert_eq!(result.err(), Some(EINVAL));
        assert_eq!(foreign.0.load(Relaxed), 0);
        assert!(Arc::into_unique_or_drop(foreign).is_some());
        Ok(())
    }
}
