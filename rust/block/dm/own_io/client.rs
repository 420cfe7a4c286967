// SPDX-License-Identifier: GPL-2.0

//! The clients of device mapper that do I/O for a target.

use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    }, //
};

use core::ptr::{
    self,
    NonNull, //
};

use crate::{
    bindings,
    block::dm::{
        bio::owned::may_wait,
        target::devices::{
            has_whole_blocks,
            DeviceIndex,
            DevicesId, //
        },
        wait::IoCompletion, //
    }, //
};

/// An area of a device of the target: whole logical blocks, see
/// [`TargetBuilder::logical_block_size()`](crate::block::dm::TargetBuilder::logical_block_size).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The device.
    pub device: DeviceIndex,
    /// The first sector.
    pub sector: u64,
    /// The number of sectors. If it is 0, an operation does nothing.
    pub n_sectors: u64,
}

/// A client of device mapper in C.
///
/// # Safety
///
/// `create()` must return a client that any task may use and destroy.
pub(in crate::block::dm) unsafe trait RawClient: Sized {
    /// Creates a client.
    fn create() -> Result<NonNull<Self>>;

    /// Destroys a client.
    ///
    /// # Safety
    ///
    /// `this` must be from `create()`, and must not be used again. No I/O of it may be in flight.
    unsafe fn destroy(this: NonNull<Self>);
}

// SAFETY: `dm_io()` in `drivers/md/dm-io.c` only allocates from the pools of a client, which take
// the locks that they need.
unsafe impl RawClient for bindings::dm_io_client {
    fn create() -> Result<NonNull<Self>> {
        // SAFETY: There are no requirements.
        let this = from_err_ptr(unsafe { bindings::dm_io_client_create() })?;
        NonNull::new(this).ok_or(ENOMEM)
    }

    unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: By this function's contract.
        unsafe { bindings::dm_io_client_destroy(this.as_ptr()) };
    }
}

// SAFETY: `dm_kcopyd_copy()` in `drivers/md/dm-kcopyd.c` takes the locks that it needs.
unsafe impl RawClient for bindings::dm_kcopyd_client {
    fn create() -> Result<NonNull<Self>> {
        // SAFETY: The pointer may be NULL: without a throttle.
        let this =
            from_err_ptr(unsafe { bindings::dm_kcopyd_client_create(core::ptr::null_mut()) })?;
        NonNull::new(this).ok_or(ENOMEM)
    }

    unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: By this function's contract.
        unsafe { bindings::dm_kcopyd_client_destroy(this.as_ptr()) };
    }
}

/// The owner of a client. Dropping it closes all handles, waits for the I/O in flight, and destroys
/// the client.
pub(in crate::block::dm) struct Owner<C: RawClient>(Arc<Shared<C>>);

/// A client, shared by its owner and its handles.
///
/// # Invariants
///
/// `client` is from `create()`. While the client is open or I/O is in flight, it is not destroyed,
/// and the devices of `devices` are open.
#[pin_data]
pub(super) struct Shared<C: RawClient> {
    client: NonNull<C>,
    devices: DevicesId,
    is_writable: bool,
    /// The module of the target, loaded while the client is open.
    module: *mut bindings::module,
    /// The task that runs functions of asynchronous copies, NULL at other times.
    worker: Atomic<*mut bindings::task_struct>,
    #[pin]
    state: SpinLockIrq<State>,
    /// Completed when the client is closed and no I/O is in flight.
    #[pin]
    idle: IoCompletion,
}

struct State {
    is_open: bool,
    in_flight: usize,
}

// SAFETY: Any task may use and drop a client, see `RawClient`. The other fields are `Send`.
unsafe impl<C: RawClient> Send for Shared<C> {}

// SAFETY: As above. The other fields are `Sync`.
unsafe impl<C: RawClient> Sync for Shared<C> {}

/// I/O in flight. The client and its devices stay open until it is dropped.
///
/// # Invariants
///
/// This is counted in `in_flight`.
pub(super) struct InFlight<'a, C: RawClient>(&'a Shared<C>);

impl<C: RawClient> Owner<C> {
    /// Creates a client for the devices of a target.
    ///
    /// # Safety
    ///
    /// The devices must stay open, and `module` loaded, until the result is dropped.
    pub(in crate::block::dm) unsafe fn new(
        devices: DevicesId,
        is_writable: bool,
        module: *mut bindings::module,
    ) -> Result<Self> {
        let client = C::create()?;
        let shared = Arc::pin_init(
            // INVARIANT: By this function's contract: the drop of the owner closes the client.
            pin_init!(Shared {
                client,
                devices,
                is_writable,
                module,
                worker: Atomic::new(ptr::null_mut()),
                state <- new_spinlock_irq!(
                    State {
                        is_open: true,
                        in_flight: 0,
                    },
                    "dm::own_io"
                ),
                idle <- IoCompletion::new(),
            }),
            GFP_KERNEL,
        );
        if shared.is_err() {
            // SAFETY: The client was just created.
            unsafe { C::destroy(client) };
        }
        Ok(Self(shared?))
    }

    /// Returns a handle.
    pub(super) fn shared(&self) -> Arc<Shared<C>> {
        self.0.clone()
    }
}

impl<C: RawClient> Drop for Owner<C> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_open = false;
        let is_idle = state.in_flight == 0;
        drop(state);

        if !is_idle {
            self.0.idle.wait();
        }
        // SAFETY: The client is from `create()` by the type invariants. No I/O is in flight, and
        // the closed client starts none.
        unsafe { C::destroy(self.0.client) };
    }
}

impl<C: RawClient> Shared<C> {
    /// Starts I/O that the caller waits for.
    ///
    /// Fails with [`ENODEV`] if the target is gone, and with [`EDEADLK`] in an interrupt, with
    /// interrupts disabled, in `map`, and in the worker of asynchronous copies.
    pub(super) fn enter(&self) -> Result<InFlight<'_, C>> {
        // SAFETY: The current task exists.
        let current = unsafe { bindings::get_current() };
        if !may_wait() || self.worker.load(Relaxed) == current {
            return Err(EDEADLK);
        }
        let mut state = self.state.lock();
        if !state.is_open {
            return Err(ENODEV);
        }
        Ok(self.count(&mut state))
    }

    /// Counts I/O in flight.
    fn count(&self, state: &mut State) -> InFlight<'_, C> {
        // OVERFLOW: Each has memory or a task.
        state.in_flight = state.in_flight.wrapping_add(1);
        // INVARIANT: Just counted.
        InFlight(self)
    }

    /// Returns the module of the target.
    pub(super) fn module(&self) -> *mut bindings::module {
        self.module
    }

    /// Runs `func` as the worker, which cannot wait for itself.
    pub(super) fn as_worker(&self, func: impl FnOnce()) {
        // SAFETY: The current task exists.
        self.worker
            .store(unsafe { bindings::get_current() }, Relaxed);
        func();
        self.worker.store(ptr::null_mut(), Relaxed);
    }

    /// Ends I/O in flight. It may be the last one that the owner waits for.
    ///
    /// # Safety
    ///
    /// The I/O must be counted in `in_flight`, and is not any more.
    pub(super) unsafe fn leave(&self) {
        let mut state = self.state.lock();
        // OVERFLOW: By this function's contract.
        state.in_flight = state.in_flight.wrapping_sub(1);
        let is_last = state.in_flight == 0 && !state.is_open;
        drop(state);

        if is_last {
            self.idle.complete_all();
        }
    }
}

impl<C: RawClient> InFlight<'_, C> {
    /// Counts further I/O in flight.
    pub(super) fn again(&self) -> Self {
        // The owner waits for `self`, so the client is not destroyed.
        self.0.count(&mut self.0.state.lock())
    }

    /// Returns the client.
    pub(super) fn client(&self) -> *mut C {
        self.0.client.as_ptr()
    }

    /// Returns the area in C, for writes if `is_write`.
    ///
    /// Fails with [`ENODEV`] if the device belongs to another target, and with [`EINVAL`] if the
    /// area is not on the device, or has parts of blocks. For writes, fails with [`EROFS`] if the
    /// table is read-only, and with [`EOPNOTSUPP`] if the device is zoned.
    pub(super) fn region(&self, region: Region, is_write: bool) -> Result<bindings::dm_io_region> {
        let bdev = self.0.devices.bdev(region.device).ok_or(ENODEV)?;
        // SAFETY: The device is open: it is one of `devices`, and `self` is in flight.
        let len_sectors = unsafe { bindings::bdev_nr_sectors(bdev) };
        // SAFETY: As above.
        let block_bytes = unsafe { bindings::bdev_logical_block_size(bdev) };

        if is_write {
            if !self.0.is_writable {
                return Err(EROFS);
            }
            // A write that crosses zones is a warning of the kernel, see
            // `blk_zone_wplug_handle_write()` in `block/blk-zoned.c`.
            //
            // SAFETY: As above.
            if unsafe { bindings::bdev_is_zoned(bdev) } {
                return Err(EOPNOTSUPP);
            }
        }
        check_area(region.sector, region.n_sectors, len_sectors)?;
        if !has_whole_blocks(region.sector | region.n_sectors, block_bytes) {
            return Err(EINVAL);
        }
        Ok(bindings::dm_io_region {
            bdev,
            sector: region.sector,
            count: region.n_sectors,
        })
    }
}

/// Fails with [`EINVAL`] unless the area is on a device of `len_sectors`.
fn check_area(sector: u64, n_sectors: u64, len_sectors: u64) -> Result {
    match sector.checked_add(n_sectors) {
        Some(end) if end <= len_sectors => Ok(()),
        _ => Err(EINVAL),
    }
}

impl<C: RawClient> Drop for InFlight<'_, C> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The value is not used again.
        unsafe { self.0.leave() };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_own_io)]
mod tests {
    use super::*;

    use kernel::{
        interrupt::local_interrupt_disable,
        module::this_module,
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    use crate::{
        block::dm::own_io::call,
        testing::{
            lockdep,
            task::OtherTask, //
        }, //
    };

    /// A client that counts how often it is destroyed.
    struct Fake(Atomic<u32>);

    static FAKE: Fake = Fake(Atomic::new(0));

    // SAFETY: Any task may use an atomic.
    unsafe impl RawClient for Fake {
        fn create() -> Result<NonNull<Self>> {
            Ok(NonNull::from(&FAKE))
        }

        unsafe fn destroy(this: NonNull<Self>) {
            // SAFETY: It is `FAKE`.
            unsafe { this.as_ref() }.0.add(1, Relaxed);
        }
    }

    fn owner() -> Result<Owner<Fake>> {
        // SAFETY: There are no devices, and the library is loaded.
        unsafe {
            Owner::new(
                DevicesId::none(),
                true,
                this_module::<crate::LocalModule>().as_ptr(),
            )
        }
    }

    #[test]
    fn area_is_on_the_device() {
        // First sector, length, length of the device, whether the area is on the device.
        for (sector, n_sectors, len_sectors, is_on) in [
            (0, 8, 8, true),
            (0, 9, 8, false),
            (7, 1, 8, true),
            (8, 0, 8, true),
            (8, 1, 8, false),
            (9, 0, 8, false),
            (0, 0, 0, true),
            (u64::MAX, 1, 8, false),
            (u64::MAX, u64::MAX, 8, false),
            (8, u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(check_area(sector, n_sectors, len_sectors).is_ok(), is_on);
        }
    }

    #[test]
    fn closed_client_starts_no_io() -> Result {
        let owner = owner()?;
        let handles = [owner.shared(), owner.shared()];
        let before = FAKE.0.load(Relaxed);
        assert!(handles[0].enter().is_ok());
        assert!(handles[1].enter().is_ok());
        assert_eq!(FAKE.0.load(Relaxed), before);

        drop(owner);
        assert_eq!(FAKE.0.load(Relaxed), before + 1);
        for handle in &handles {
            assert_eq!(handle.enter().err(), Some(ENODEV));
        }
        drop(handles);
        assert_eq!(FAKE.0.load(Relaxed), before + 1);
        Ok(())
    }

    #[test]
    fn owner_waits_for_io_in_flight() -> Result {
        let owner = owner()?;
        let handle = owner.shared();
        let before = FAKE.0.load(Relaxed);
        let in_flight = [handle.enter()?, handle.enter()?];

        let closer = OtherTask::start(move || drop(owner))?;
        let mut was_there = true;
        for io in in_flight {
            for _ in 0..10 {
                fsleep(Delta::from_millis(1));
                was_there &= !closer.is_done() && FAKE.0.load(Relaxed) == before;
            }
            drop(io);
        }
        closer.wait();

        assert!(was_there);
        assert_eq!(FAKE.0.load(Relaxed), before + 1);
        Ok(())
    }

    /// Otherwise I/O that starts I/O again would keep its target forever.
    #[test]
    fn closing_client_starts_no_io() -> Result {
        let owner = owner()?;
        let handle = owner.shared();
        let in_flight = handle.enter()?;

        let closer = OtherTask::start(move || drop(owner))?;
        while handle.enter().is_ok() {
            fsleep(Delta::from_millis(1));
        }
        let error = handle.enter().err();
        drop(in_flight);
        closer.wait();

        assert_eq!(error, Some(ENODEV));
        Ok(())
    }

    #[test]
    fn io_is_refused_with_interrupts_disabled() -> Result {
        let owner = owner()?;
        let handle = owner.shared();

        let irqs = local_interrupt_disable();
        let error = handle.enter().err();
        drop(irqs);

        assert_eq!(error, Some(EDEADLK));
        assert!(handle.enter().is_ok());
        Ok(())
    }

    #[test]
    fn worker_cannot_wait_for_itself() -> Result {
        let owner = owner()?;
        let handle = owner.shared();
        let mut error = None;

        handle.as_worker(|| error = handle.enter().err());
        assert_eq!(error, Some(EDEADLK));
        assert!(handle.enter().is_ok());
        Ok(())
    }

    #[test]
    fn call_is_in_flight_until_its_function_returns() -> Result {
        for is_worker in [false, true] {
            let owner = owner()?;
            let handle = owner.shared();
            let sum = Arc::new(Atomic::new(0), GFP_KERNEL)?;
            let theirs = sum.clone();
            let before = FAKE.0.load(Relaxed);
            let func = move |results: Result<call::Results>| {
                for _ in 0..10 {
                    fsleep(Delta::from_millis(1));
                }
                if FAKE.0.load(Relaxed) == before {
                    theirs.store(results.map_or(1, |(first, second)| first + second), Relaxed);
                }
            };
            let in_flight = handle.enter()?;
            let context = call::begin(&in_flight, &handle, func).ok_or(EINVAL)?;
            drop(in_flight);

            let closer = OtherTask::start(move || drop(owner))?;
            while handle.enter().is_ok() {
                fsleep(Delta::from_millis(1));
            }
            let is_waiting = !closer.is_done() && sum.load(Relaxed) == 0;
            // SAFETY: The context is from `begin()`, and is used once.
            unsafe { call::finish::<Fake>(context, (40, 2), is_worker) };
            closer.wait();

            assert!(is_waiting);
            assert_eq!(sum.load(Relaxed), 42);
            // The function was freed.
            assert!(Arc::into_unique_or_drop(sum).is_some());
        }
        Ok(())
    }

    /// Otherwise the memory of a call could wait for I/O of the target.
    #[test]
    fn memory_of_a_call_starts_no_io() -> Result {
        let was_active = lockdep::is_active();
        let owner = owner()?;
        let handle = owner.shared();
        let in_flight = handle.enter()?;

        let func = |_: Result<call::Results>| ();
        let context = lockdep::in_reclaim(|| call::begin(&in_flight, &handle, func));
        // SAFETY: The context is from `begin()`, and is used once.
        unsafe { call::finish::<Fake>(context.ok_or(EINVAL)?, (0, 0), false) };

        assert_eq!(lockdep::is_active(), was_active);
        Ok(())
    }

    #[test]
    fn only_functions_of_the_worker_cannot_wait() -> Result {
        for (is_worker, expected) in [(false, 0), (true, EDEADLK.to_errno())] {
            let owner = owner()?;
            let handle = owner.shared();
            let theirs = handle.clone();
            let error = Arc::new(Atomic::new(1), GFP_KERNEL)?;
            let found = error.clone();
            let func = move |_: Result<call::Results>| {
                let error = theirs.enter().err();
                found.store(error.map_or(0, |error| error.to_errno()), Relaxed);
            };
            let in_flight = handle.enter()?;
            let context = call::begin(&in_flight, &handle, func).ok_or(EINVAL)?;
            drop(in_flight);
            // SAFETY: The context is from `begin()`, and is used once.
            unsafe { call::finish::<Fake>(context, (0, 0), is_worker) };

            assert_eq!(error.load(Relaxed), expected);
        }
        Ok(())
    }

    /// Nothing would keep such a module loaded.
    #[test]
    fn functions_of_other_modules_are_refused() -> Result {
        // SAFETY: There are no devices, and no module.
        let owner: Owner<Fake> = unsafe { Owner::new(DevicesId::none(), true, ptr::null_mut()) }?;
        let handle = owner.shared();
        let in_flight = handle.enter()?;
        let error = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let theirs = error.clone();
        let func = move |results: Result<call::Results>| {
            theirs.store(
                results.map_or_else(|error| error.to_errno(), |_| 1),
                Relaxed,
            );
        };

        assert!(call::begin(&in_flight, &handle, func).is_none());
        assert_eq!(error.load(Relaxed), EINVAL.to_errno());
        Ok(())
    }
}
