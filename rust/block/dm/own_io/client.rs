// SPDX-License-Identifier: GPL-2.0

//! The clients of device mapper that do I/O for a target.

use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        Completion,
        SpinLockIrq, //
    }, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    block::dm::{
        bio::owned::may_wait,
        target::devices::{
            DeviceIndex,
            DevicesId, //
        }, //
    }, //
};

/// An area of a device of the target.
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

// SAFETY: `dm_io()` in `drivers/md/dm-io.c` only allocates from the pools of a client, which take the
// locks that they need.
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
/// `client` is from `create()`. While the client is open or I/O is in flight, it is not destroyed, and
/// the devices of `devices` are open.
#[pin_data]
pub(super) struct Shared<C: RawClient> {
    client: NonNull<C>,
    devices: DevicesId,
    is_writable: bool,
    #[pin]
    state: SpinLockIrq<State>,
    /// Completed when the client is closed and no I/O is in flight.
    #[pin]
    idle: Completion,
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
    /// The devices must stay open until the result is dropped.
    pub(in crate::block::dm) unsafe fn new(devices: DevicesId, is_writable: bool) -> Result<Self> {
        let client = C::create()?;
        let shared = Arc::pin_init(
            // INVARIANT: By this function's contract: the drop of the owner closes the client.
            pin_init!(Shared {
                client,
                devices,
                is_writable,
                state <- new_spinlock_irq!(
                    State {
                        is_open: true,
                        in_flight: 0,
                    },
                    "dm::own_io"
                ),
                idle <- Completion::new(),
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
            self.0.idle.wait_for_completion();
        }
        // SAFETY: The client is from `create()` by the type invariants. No I/O is in flight, and the
        // closed client starts none.
        unsafe { C::destroy(self.0.client) };
    }
}

impl<C: RawClient> Shared<C> {
    /// Starts I/O that the caller waits for.
    ///
    /// Fails with [`ENODEV`] if the target is gone, and with [`EDEADLK`] in an interrupt, with
    /// interrupts disabled and in `map`.
    pub(super) fn enter(&self) -> Result<InFlight<'_, C>> {
        if !may_wait() {
            return Err(EDEADLK);
        }
        let mut state = self.state.lock();
        if !state.is_open {
            return Err(ENODEV);
        }
        // OVERFLOW: There are fewer tasks than `usize::MAX`.
        state.in_flight = state.in_flight.wrapping_add(1);
        // INVARIANT: Just counted.
        Ok(InFlight(self))
    }
}

impl<C: RawClient> InFlight<'_, C> {
    /// Returns the client.
    pub(super) fn client(&self) -> *mut C {
        self.0.client.as_ptr()
    }

    /// Returns the area in C, for writes if `is_write`.
    ///
    /// Fails with [`ENODEV`] if the device belongs to another target, and with [`EINVAL`] if the area
    /// is not on the device. For writes, fails with [`EROFS`] if the table is read-only, and with
    /// [`EOPNOTSUPP`] if the device is zoned.
    pub(super) fn region(&self, region: Region, is_write: bool) -> Result<bindings::dm_io_region> {
        let bdev = self.0.devices.bdev(region.device).ok_or(ENODEV)?;
        // SAFETY: The device is open: it is one of `devices`, and `self` is in flight.
        let len_sectors = unsafe { bindings::bdev_nr_sectors(bdev) };

        if is_write {
            if !self.0.is_writable {
                return Err(EROFS);
            }
            // A write that crosses zones is a warning of the kernel, see `blk_zone_wplug_handle_write()`
            // in `block/blk-zoned.c`.
            //
            // SAFETY: As above.
            if unsafe { bindings::bdev_is_zoned(bdev) } {
                return Err(EOPNOTSUPP);
            }
        }
        check_area(region.sector, region.n_sectors, len_sectors)?;
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
        let mut state = self.0.state.lock();
        // OVERFLOW: By the type invariants.
        state.in_flight = state.in_flight.wrapping_sub(1);
        let is_last = state.in_flight == 0 && !state.is_open;
        drop(state);

        if is_last {
            self.0.idle.complete_all();
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_own_io)]
mod tests {
    use super::*;

    use kernel::{
        interrupt::local_interrupt_disable,
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    use crate::testing::task::OtherTask;

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
        // SAFETY: There are no devices.
        unsafe { Owner::new(DevicesId::none(), true) }
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
}
