// SPDX-License-Identifier: GPL-2.0

//! The callbacks and work functions that free an item.

use kernel::{
    prelude::*,
    static_lock_class,
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::bindings;

use super::item::Header;

/// Frees a node of any type.
///
/// # Safety
///
/// `header` must be that of a node that `Retired::call()` passed to `call_srcu()`. The grace period
/// must have ended. The header must not be used again.
unsafe fn free(header: NonNull<Header>) {
    // SAFETY: The header is allocated, and nothing else uses it.
    let Some(callback) = (unsafe { (*header.as_ptr()).callback.take() }) else {
        return;
    };
    let destructor = callback.destructor;
    // SAFETY: By the type invariants of `QueuedCallback` the destructor is that of this node.
    // Nothing uses the node after the grace period, and `call()` requires values that are `Send`.
    // The code is present, because the value is counted.
    unsafe { destructor(header) };
    callback.pending.end();
}

/// Frees a node in an SRCU callback.
///
/// # Safety
///
/// As `free()`, for the node whose header contains `rcu`.
pub(super) unsafe extern "C" fn free_now(rcu: *mut bindings::callback_head) {
    // SAFETY: By the contract of this function.
    let header = unsafe { header_of_rcu(rcu) };
    // SAFETY: As above.
    unsafe { free(header) };
}

/// Queues a work item that frees a node.
///
/// # Safety
///
/// As `free()`, for the node whose header contains `rcu`.
pub(super) unsafe extern "C" fn free_in_worker(rcu: *mut bindings::callback_head) {
    // SAFETY: By the contract of this function.
    let header = unsafe { header_of_rcu(rcu) };
    // SAFETY: The header is allocated, and nothing else uses it.
    let Some(callback) = (unsafe { &(*header.as_ptr()).callback }) else {
        return;
    };
    let queue = callback.pending.queue();
    // SAFETY: As above.
    let work: *mut bindings::work_struct = unsafe { &raw const (*header.as_ptr()).work }
        .cast_mut()
        .cast();

    // SAFETY: `work` is valid for writes. Name and key are static in this module, which stays until
    // its queue is empty.
    unsafe {
        bindings::init_work_with_key(
            work,
            Some(run),
            false,
            c"kscale::srcu::free".as_char_ptr(),
            static_lock_class!().as_ptr(),
        )
    };
    // CAST: The constant is a small number.
    let any_cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32;
    // SAFETY: `work` stays valid until `run()` frees it. The queue exists, because the value is
    // counted.
    unsafe { bindings::queue_work_on(any_cpu, queue, work) };
}

/// Frees a node in a work item.
///
/// # Safety
///
/// As [`free()`], for the node whose header contains `work`.
unsafe extern "C" fn run(work: *mut bindings::work_struct) {
    // SAFETY: By the contract of this function `work` is a field of a header.
    let header = unsafe {
        NonNull::new_unchecked(kernel::container_of!(
            Opaque::cast_from(work).cast_mut(),
            Header,
            work
        ))
    };
    // SAFETY: By the contract of this function.
    unsafe { free(header) };
}

/// Returns the header that contains `rcu`.
///
/// # Safety
///
/// `rcu` must be the `rcu` field of a header.
unsafe fn header_of_rcu(rcu: *mut bindings::callback_head) -> NonNull<Header> {
    // SAFETY: By the contract of this function. The result points into an allocation.
    unsafe {
        NonNull::new_unchecked(kernel::container_of!(
            Opaque::cast_from(rcu).cast_mut(),
            Header,
            rcu
        ))
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_callbacks)]
mod tests {
    use super::*;

    use kernel::{
        module::this_module,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        }, //
    };

    use super::super::{
        new_domain,
        pending_values,
        testing::{
            nap,
            pointer,
            retire,
            wait_for_callbacks,
            Counted,
            Drops,
            OtherTask, //
        },
        Domain,
        Normal,
        Retired, //
    };

    #[test]
    fn barrier_waits_for_callbacks() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let drops = Drops::new()?;
        let pointer = pointer(&domain, drops.value())?;

        for _ in 0..100 {
            retire(&pointer, drops.value())?.free_later();
        }
        domain.barrier();

        assert_eq!(drops.count(), 100);
        Ok(())
    }

    /// Pointer, domain and callbacks end in all orders.
    #[test]
    fn drop_waits_for_callbacks() -> Result {
        for order in 0..3 {
            let domain: Domain<Normal> = new_domain!()?;
            let drops = Drops::new()?;
            let pointer = pointer(&domain, drops.value())?;
            retire(&pointer, drops.value())?.free_later();
            let retired = retire(&pointer, drops.value())?;

            match order {
                0 => {
                    drop(pointer);
                    drop(domain);
                    retired.free_later();
                }
                1 => {
                    drop(retired);
                    drop(domain);
                    drop(pointer);
                }
                _ => {
                    retired.free_later();
                    drop(pointer);
                    drop(domain);
                }
            }
            assert_eq!(drops.count(), 3);
        }
        Ok(())
    }

    /// Holds a handle of the domain that frees it, and uses this handle in `drop()`.
    struct Owner {
        domain: Domain<Normal>,
        _counted: Counted,
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            drop(self.domain.read_lock());
            let _ = self.domain.start_poll();
        }
    }

    #[test]
    fn value_can_own_the_last_handle() -> Result {
        for free in [
            Retired::<Owner, Normal>::free_later,
            Retired::free_in_workqueue,
        ] {
            let drops = Drops::new()?;
            let domain: Domain<Normal> = new_domain!()?;
            let owner = || Owner {
                domain: domain.clone(),
                _counted: drops.value(),
            };
            let pointer = pointer(&domain, owner())?;
            let retired = retire(&pointer, owner())?;
            drop(pointer);
            drop(domain);

            // In another task: here it would wait for the callback.
            OtherTask::start(move || free(retired))?;
            drops.wait_for(2);
        }
        Ok(())
    }

    /// Waits for its domain in `drop()`.
    struct Sleeper {
        domain: Domain<Normal>,
        _counted: Counted,
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            nap();
            self.domain.synchronize();
            self.domain.barrier();
        }
    }

    #[test]
    fn a_destructor_in_a_work_item_may_sleep() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let drops = Drops::new()?;
        let sleeper = || Sleeper {
            domain: domain.clone(),
            _counted: drops.value(),
        };
        let pointer = pointer(&domain, sleeper())?;

        for _ in 0..4 {
            retire(&pointer, sleeper())?.free_in_workqueue();
        }
        drops.wait_for(4);
        Ok(())
    }

    /// Retires another value in `drop()`.
    struct Chain {
        next: Option<Retired<Chain, Normal>>,
        _counted: Counted,
    }

    impl Drop for Chain {
        fn drop(&mut self) {
            if let Some(next) = self.next.take() {
                next.free_later();
            }
        }
    }

    #[test]
    fn destructor_can_retire_another_value() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let drops = Drops::new()?;
        let chain = |next| Chain {
            next,
            _counted: drops.value(),
        };
        let pointer = pointer(&domain, chain(None))?;
        let first = retire(&pointer, chain(None))?;
        drop(retire(&pointer, chain(Some(first)))?);

        // The second value retires the first in its callback.
        retire(&pointer, chain(None))?.free_later();
        domain.barrier();
        domain.barrier();
        drop(pointer);
        assert_eq!(drops.count(), 4);
        Ok(())
    }

    #[test]
    fn a_module_waits_for_its_destructors() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let drops = Drops::new()?;
        let pointer = pointer(&domain, drops.value())?;
        let guard = domain.read_lock();
        retire(&pointer, drops.value())?.free_later();
        retire(&pointer, drops.value())?.free_in_workqueue();

        // As the exit of the library, which contains the code of this test.
        let gone = OtherTask::start(wait_for_callbacks)?;
        for _ in 0..10 {
            nap();
        }
        assert!(!gone.is_done());
        assert_eq!(drops.count(), 0);

        drop(guard);
        gone.wait();
        assert_eq!(drops.count(), 2);
        Ok(())
    }

    /// Notes in `drop()` whether its module waits for values.
    struct Witness {
        is_awaited: Arc<Atomic<bool>>,
        _counted: Counted,
    }

    impl Drop for Witness {
        fn drop(&mut self) {
            let module = this_module::<crate::LocalModule>().as_ptr();
            self.is_awaited.store(pending_values(module) > 0, Relaxed);
        }
    }

    #[test]
    fn a_module_waits_until_the_destructor_has_returned() -> Result {
        for free in [
            Retired::<Witness, Normal>::free_later,
            Retired::free_in_workqueue,
        ] {
            let (domain, drops) = (new_domain!()?, Drops::new()?);
            let is_awaited = Arc::new(Atomic::new(false), GFP_KERNEL)?;
            let witness = || Witness {
                is_awaited: is_awaited.clone(),
                _counted: drops.value(),
            };
            let pointer = pointer(&domain, witness())?;
            // No values of other tests.
            wait_for_callbacks();

            free(retire(&pointer, witness())?);
            drops.wait_for(1);
            assert!(is_awaited.load(Relaxed));
        }
        Ok(())
    }
}
