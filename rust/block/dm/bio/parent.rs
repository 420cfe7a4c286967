// SPDX-License-Identifier: GPL-2.0

//! A bio with several clones, which may be in flight at the same time.
//!
//! As `bio_chain()` in `block/bio.c`: the parent ends after its last child, with the first error.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Refcount, //
    }, //
};

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult,
            Op, //
        },
        dm::target::{
            devices::DeviceIndex,
            target_type,
            Target, //
        }, //
    },
    mm::gfp::Gfp, //
};

use super::{
    getters::impl_shared_getters,
    owned::{
        may_submit,
        Bio,
        InIrq,
        InTask,
        IrqBio, //
    },
    per_bio::{
        PerBio,
        PerBioRef, //
    }, //
};

/// A counted reference to a bio with clones.
///
/// A clone, the [`ChildBio`], has a reference until it has completed. After the last reference is
/// dropped, the function that [`Bio::into_parent()`] got owns the bio. A leaked reference is a
/// leaked bio, see [`Bio`].
///
/// # Invariants
///
/// `ptr` is a bio that has not left its target and is at no device. Its `Parent` is initialised,
/// and counts this reference. All pointers to the bio belong to counted references, which only read
/// the other per-bio data.
pub struct ParentBio<T: Target, C = InTask> {
    ptr: ManuallyDrop<PerBioRef<T>>,
    _context: PhantomData<C>,
}

/// A [`ParentBio`] in a function that may run in an interrupt. It cannot be cloned for a device.
pub type IrqParentBio<T> = ParentBio<T, InIrq>;

/// The state of a bio with clones, stored in its per-bio data.
pub(in crate::block::dm) struct Parent<T: Target> {
    /// The number of references.
    remaining: Refcount,
    /// The first error as a `blk_status_t`, or 0.
    status: Atomic<u32>,
    /// The state of the I/O accounting of the mapped device: `NOT_STARTED`, `STARTING` or
    /// `STARTED`.
    accounting: Atomic<u32>,
    /// The function that gets the bio after the last reference is dropped. Without it, the bio
    /// ends.
    done: Option<fn(IrqBio<T>, BlkResult)>,
}

const NOT_STARTED: u32 = 0;
const STARTING: u32 = 1;
const STARTED: u32 = 2;

/// The completion state of a child, in front of the clone in the memory of its [`BioSet`].
pub(in crate::block) struct ChildEnd<T: Target> {
    done: fn(IrqParentBio<T>, DeviceIndex, BlkResult),
    device: DeviceIndex,
}

// SAFETY: `PerBioRef` may be used by any task, see `Bio`. The last reference passes the bio to
// `done`, and a `Bio` is `Send`.
unsafe impl<T: Target, C> Send for ParentBio<T, C> {}

// SAFETY: The methods of `&ParentBio` only read immutable data of the bio and its target, which is
// `Sync`, or access atomics. `data()` requires `PerBio: Sync`.
unsafe impl<T: Target, C> Sync for ParentBio<T, C> {}

impl<T: Target> Bio<T> {
    /// Makes the bio the parent of several clones.
    ///
    /// After the last [`ParentBio`] is dropped, `done` gets the bio and the first error of
    /// [`ParentBio::set_error()`]. It runs in the context of that drop, so it gets an [`IrqBio`].
    /// If `done` is not code of the module of the target, the bio ends with [`BlkError::IOERR`]
    /// instead.
    ///
    /// Context: Any context. Never sleeps. C: `bio_chain()` in `block/bio.c`.
    pub fn into_parent(self, done: fn(IrqBio<T>, BlkResult)) -> ParentBio<T> {
        let mut ptr = self.into_ptr();
        let may_call = ptr.may_call(done as *const () as usize);

        ptr.set_parent(Parent {
            remaining: Refcount::new(1),
            status: Atomic::new(0),
            accounting: Atomic::new(NOT_STARTED),
            done: may_call.then_some(done),
        });
        // INVARIANT: This is the only pointer, and it is counted.
        ParentBio {
            ptr: ManuallyDrop::new(ptr),
            _context: PhantomData,
        }
    }
}

impl<T: Target, C> ParentBio<T, C> {
    impl_shared_getters!();

    /// Returns the per-bio data of the target.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn data(&self) -> &T::PerBio
    where
        T::PerBio: Sync,
    {
        self.ptr.shared_data()
    }

    /// Sets the error that `done` of [`Bio::into_parent()`] gets. Only the first error is kept.
    ///
    /// Context: Any context. Never sleeps. C: `bio_chain_endio()` in `block/bio.c`.
    pub fn set_error(&self, error: BlkError) {
        let raw = BlkError::result_to_raw(Err(error));
        // A failure means that there is an error.
        let _ = self.state().status.cmpxchg(0, raw.into(), Relaxed);
    }

    /// Returns the state that all references share.
    fn state(&self) -> &Parent<T> {
        // SAFETY: The state is initialised by the type invariants.
        unsafe { self.ptr.parent() }
    }

    /// Returns the block layer's bio.
    fn bio(&self) -> *mut bindings::bio {
        self.ptr.bio()
    }
}

impl<T: Target> ParentBio<T> {
    /// Makes a clone of the bio that shares its memory.
    ///
    /// Fails if the operation is neither a read, a write, a flush, a discard, a secure erase nor a
    /// write of zeroes, if the bio has integrity metadata, and in an interrupt.
    ///
    /// Context: Process context. May sleep. Waits until the set has a bio. May deadlock if the
    /// caller holds another bio of the same set, or has submitted one in the same call of `map`.
    /// C: `bio_alloc_clone()` in `block/bio.c`.
    pub fn share(
        &self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x BioSet,
    ) -> Option<ChildBio<T>> {
        let can_be_cloned = matches!(
            self.op(),
            Op::Read | Op::Write | Op::Discard | Op::SecureErase | Op::WriteZeroes
        );
        // SAFETY: The bio is alive by the type invariants.
        let opf = unsafe { (*self.bio()).bi_opf };
        if !can_be_cloned || opf & bindings::REQ_INTEGRITY != 0 || !may_submit() {
            return None;
        }
        let set = select(self.target()).as_raw();

        // SAFETY:
        // - `set` is initialised, and lives as long as the target: `select` borrowed it from the
        //   target for an arbitrary lifetime.
        // - The parent is alive, and ends after the clone: the child has a reference.
        let clone = NonNull::new(unsafe {
            bindings::bio_alloc_clone(core::ptr::null_mut(), self.bio(), Gfp::NOIO.as_raw(), set)
        })?;
        // SAFETY: The clone is alive and not shared.
        unsafe {
            // Polling looks at device mapper's bios only.
            (*clone.as_ptr()).bi_opf &= !bindings::REQ_POLLED;
        }
        // INVARIANT: The clone was just made from a set of the target.
        Some(ChildBio {
            parent: ManuallyDrop::new(self.clone()),
            clone,
        })
    }
}

impl<T: Target, C> Clone for ParentBio<T, C> {
    fn clone(&self) -> Self {
        self.state().remaining.inc();
        // INVARIANT: The new reference was counted.
        Self {
            // SAFETY: The bio does not leave the target before the new reference is dropped.
            ptr: ManuallyDrop::new(unsafe { self.ptr.duplicate() }),
            _context: PhantomData,
        }
    }
}

impl<T: Target, C> Drop for ParentBio<T, C> {
    fn drop(&mut self) {
        if !self.state().remaining.dec_and_test() {
            return;
        }
        // This was the last reference, so the bio is still alive.
        let parent = self.state();
        // CAST: A `blk_status_t`.
        let result = BlkError::result_from_raw(parent.status.load(Relaxed) as u8);
        let done = parent.done;

        // SAFETY: `self` is not used again.
        let bio = Bio::new(unsafe { ManuallyDrop::take(&mut self.ptr) });
        if let Some(done) = done {
            done(bio, result);
        }
    }
}

/// A clone of a [`ParentBio`], which shares its memory.
///
/// Dropping it frees the clone, and sets the error [`BlkError::IOERR`] of the parent.
///
/// # Invariants
///
/// `clone` is a clone of `parent` from a [`BioSet`] of the target, owned here, and at no device.
pub struct ChildBio<T: Target> {
    parent: ManuallyDrop<ParentBio<T>>,
    clone: NonNull<bindings::bio>,
}

// SAFETY: As for `ParentBio`; any task may free a bio.
unsafe impl<T: Target> Send for ChildBio<T> {}

impl<T: Target> ChildBio<T> {
    /// Returns the parent.
    ///
    /// Context: Any context. Never sleeps.
    pub fn parent(&self) -> &ParentBio<T> {
        &self.parent
    }

    /// Sends the clone to `sector` of `device`. On completion, the clone is freed, and `done` gets
    /// the reference to the parent, the device, and the result of the device.
    ///
    /// `done` runs in any context including hard interrupts. It does not set the error of the
    /// parent: see [`ParentBio::set_error()`].
    ///
    /// If several tasks send the first children at the same time, the cgroup of the submitter is
    /// not charged for some of them.
    ///
    /// The clone is dropped if `device` belongs to another target, if `done` is not code of the
    /// module of the target, and in a call from an interrupt or with interrupts disabled.
    ///
    /// Context: Process context. May sleep. C: `dm_submit_bio_remap()` in `drivers/md/dm.c`.
    pub fn submit(
        self,
        device: DeviceIndex,
        sector: u64,
        done: fn(IrqParentBio<T>, DeviceIndex, BlkResult),
    ) {
        let bdev = self.parent.ptr.inner().devices().bdev(device);
        let may_call = self.parent.ptr.may_call(done as *const () as usize);
        let (Some(bdev), true) = (bdev, may_submit() && may_call) else {
            return;
        };
        // The device owns the clone from now on, and with it the reference.
        let this = ManuallyDrop::new(self);
        let (base, clone) = (this.parent.bio(), this.clone.as_ptr());
        let accounting = this
            .parent
            .state()
            .accounting
            .cmpxchg(NOT_STARTED, STARTING, Acquire);

        // SAFETY: The clone is alive and not shared, and the device is open while the target lives.
        unsafe { bindings::bio_set_dev(clone, bdev) };
        // SAFETY: As above. The `BioSet` has room for a `ChildEnd` in front of the clone.
        unsafe {
            (*clone).bi_iter.bi_sector = sector;
            (*clone).bi_end_io = Some(target_type::end_child);
            (*clone).bi_private = this.parent.ptr.as_raw().cast();
            ChildEnd::of(clone).write(ChildEnd { done, device });
        }
        if accounting == Err(STARTING) {
            // Another task is in `dm_submit_bio_remap()`, which must not start the accounting
            // twice.
            //
            // SAFETY: The clone is ready, and not used again.
            unsafe { bindings::submit_bio_noacct(clone) };
            return;
        }
        // The first child: `STARTED` is set below, so the parent must not end before.
        let parent = accounting.is_ok().then(|| ParentBio::clone(&this.parent));
        // SAFETY: `base` is device mapper's clone, alive until `end_child()` drops the reference.
        // `accounts_remapped_io` is set for each target. The clone is ready, and neither bio is
        // used again here.
        unsafe { bindings::dm_submit_bio_remap(base, clone) };
        if let Some(parent) = parent {
            parent.state().accounting.store(STARTED, Release);
        }
    }
}

impl<T: Target> Drop for ChildBio<T> {
    fn drop(&mut self) {
        // SAFETY: The clone is owned here, and not used again.
        unsafe { bindings::bio_put(self.clone.as_ptr()) };
        self.parent.set_error(BlkError::IOERR);
        // SAFETY: `self` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.parent) };
    }
}

impl<T: Target> ChildEnd<T> {
    /// Returns the memory in front of a clone.
    ///
    /// # Safety
    ///
    /// `clone` must be from a [`BioSet`].
    unsafe fn of(clone: *mut bindings::bio) -> *mut Self {
        const {
            assert!(size_of::<Self>() <= BioSet::FRONT_PAD);
            assert!(align_of::<Self>() <= align_of::<bindings::bio>());
            assert!(BioSet::FRONT_PAD % align_of::<bindings::bio>() == 0);
        };
        // SAFETY: The set has `FRONT_PAD` bytes in front of each bio.
        unsafe { clone.byte_sub(BioSet::FRONT_PAD).cast() }
    }

    /// Handles the completion of a child.
    ///
    /// # Safety
    ///
    /// Must be called once for a clone that [`ChildBio::submit()`] of a target `T` sent, when the
    /// device has completed it. The caller must be in a section that keeps the code of `T` after
    /// the parent has ended.
    pub(in crate::block::dm) unsafe fn end(clone: *mut bindings::bio) {
        // SAFETY: `submit()` wrote it. The type has no destructor.
        let Self { done, device } = unsafe { Self::of(clone).read() };
        // SAFETY: `submit()` set `bi_private`, and gave up its reference for this call.
        let ptr = unsafe { PerBio::<T>::from_raw((*clone).bi_private.cast()) };
        // INVARIANT: The reference is counted: the `ChildBio` was not dropped.
        let parent = ParentBio {
            ptr: ManuallyDrop::new(ptr),
            _context: PhantomData,
        };
        // SAFETY: The clone is alive until it is freed below.
        let result = BlkError::result_from_raw(unsafe { (*clone).bi_status });
        // Free the clone before the target may be gone.
        //
        // SAFETY: The device has completed the clone, and it is not used again.
        unsafe { bindings::bio_put(clone) };
        // May end the parent, so this may be the last use of the target. The code stays, by this
        // function's contract.
        done(parent, device, result);
    }
}
