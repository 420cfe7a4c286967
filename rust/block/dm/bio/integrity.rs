// SPDX-License-Identifier: GPL-2.0

//! Bios with integrity metadata.
//!
//! A target attaches an [`IntegrityPayload`] to a bio before it sends the bio to a device. From
//! then on they belong to the bio: they are lent again after completion, and freed when the bio
//! leaves the target.

use kernel::{
    fmt,
    prelude::*, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult,
            IntegrityPayload,
            IntegrityProfile,
            Op,
            Segments,
            SegmentsMut, //
        },
        dm::{
            target::{
                ctr::TargetBuilder,
                devices::DeviceIndex,
                Target, //
            },
            wait::IoCompletion, //
        }, //
    }, //
};

use super::{
    clone::CloneBio,
    end_io::EndBio,
    map::MapBio,
    owned::{
        may_submit,
        may_wait,
        Bio, //
    },
    per_bio::PerBioRef, //
};

impl TargetBuilder<'_> {
    /// Returns the integrity profile of a device of this target. Returns [`None`] if the device has
    /// none, or without `CONFIG_BLK_DEV_INTEGRITY`.
    ///
    /// Context: Any context. Never sleeps.
    pub fn integrity_profile(&self, device: DeviceIndex) -> Option<IntegrityProfile> {
        let bdev = self.devices.bdev(device)?;
        // SAFETY: The device is open, see `Devices`.
        unsafe { IntegrityProfile::of(bdev) }
    }
}

impl<T: Target> MapBio<'_, T> {
    /// Attaches `payload`, which the device reads or writes with the bio.
    ///
    /// Replaces an earlier payload. The bio is killed later if the device does not store exactly
    /// this number of bytes with its sectors.
    ///
    /// The target must set [`Target::INTEGRITY_PAYLOADS`]. Otherwise the call does not compile.
    ///
    /// Context: Any context. Never sleeps. A bio with a payload must only be remapped in process
    /// context.
    pub fn set_integrity(&mut self, payload: IntegrityPayload) {
        self.ptr.set_integrity(payload);
    }
}

impl<T: Target, C> Bio<T, C> {
    /// Returns the target, the memory of a read, and the integrity data that the device returned.
    /// The data is empty if the bio has no payload.
    ///
    /// See [`Bio::segments_mut()`].
    ///
    /// Context: Any context. Never sleeps.
    pub fn segments_and_integrity(&mut self) -> (Pin<&T>, SegmentsMut<'_>, &[u8]) {
        self.ptr_mut().segments_and_integrity()
    }

    /// Removes the payload from the bio, to reuse it.
    ///
    /// Context: Any context. Never sleeps.
    pub fn take_integrity(&mut self) -> Option<IntegrityPayload> {
        self.ptr_mut().integrity_mut().take()
    }
}

impl<T: Target> EndBio<'_, T> {
    /// Returns the memory and the integrity data of a read, as [`Bio::segments_and_integrity()`].
    ///
    /// Context: Any context. Never sleeps.
    pub fn segments_and_integrity(&mut self) -> (Pin<&T>, SegmentsMut<'_>, &[u8]) {
        self.ptr.segments_and_integrity()
    }
}

impl<T: Target> CloneBio<T> {
    /// Attaches `payload`, which the device reads or writes with the clone.
    ///
    /// Replaces the payload of the base bio. If the device does not store exactly this number of
    /// bytes with its sectors, submission ends the base bio with [`BlkError::IOERR`].
    ///
    /// The target must set [`Target::INTEGRITY_PAYLOADS`]. Otherwise the call does not compile.
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_integrity(&mut self, payload: IntegrityPayload) {
        self.base.ptr_mut().set_integrity(payload);
    }

    /// Reads the sectors of the base bio into the clone, with integrity data if the base bio has a
    /// payload, and waits for completion.
    ///
    /// On failure, returns the base bio and the error of the device. Fails with [`BlkError::IOERR`]
    /// if `device` belongs to another target, or if the clone has no memory of its own or is no
    /// read. Fails in the same way where a task cannot wait for a bio: in an interrupt, and in
    /// [`Target::map()`], as bios are submitted only after `map` returned.
    ///
    /// Context: Process context. May sleep. Not in `map`.
    pub fn read(
        self,
        device: DeviceIndex,
        sector: u64,
    ) -> Result<ReadClone<T>, (Bio<T>, BlkError)> {
        let is_own_read = self.base.op() == Op::Read && self.is_own();
        let Some(bdev) = self.base.ptr().inner().devices().bdev(device) else {
            return Err((self.into_base(), BlkError::IOERR));
        };
        if !is_own_read || !may_wait() {
            return Err((self.into_base(), BlkError::IOERR));
        }
        let mut this = self;
        let clone = this.clone.as_ptr();
        // SAFETY: The clone is alive and not shared. The device is open while the target lives.
        let iter = unsafe {
            bindings::bio_set_dev(clone, bdev);
            (*clone).bi_iter.bi_sector = sector;
            (*clone).bi_iter
        };
        // SAFETY: The clone is alive and owned here. The payload is in the base bio, which is not
        // used until the device has completed the clone.
        if unsafe { this.base.ptr_mut().attach_integrity(clone) }.is_err() {
            return Err((this.into_base(), BlkError::IOERR));
        }

        let done = this.base.ptr_mut().init_read();
        // SAFETY: The clone is not shared.
        unsafe {
            (*clone).bi_private = done.as_ptr().cast();
            (*clone).bi_end_io = Some(end_read);
        }
        // SAFETY: The bio is device mapper's clone, and does not end before this function returns.
        // `accounts_remapped_io` is set for each target.
        unsafe { bindings::dm_submit_bio_remap(this.base.ptr().bio(), clone) };
        // `end_read()` completes it.
        //
        // SAFETY: The base bio stays in the target, and gets no other clones, while `this` has it.
        unsafe { done.as_ref() }.wait();

        // SAFETY: The device has completed the clone, so this function owns it again.
        let result = unsafe {
            // The device advanced the position, and may have remapped the clone to another device.
            bindings::bio_set_dev(clone, bdev);
            (*clone).bi_iter = iter;
            BlkError::result_from_raw((*clone).bi_status)
        };
        match result {
            // INVARIANT: The clone was just filled, is a read, owns its memory, and its device was
            // restored.
            Ok(()) => {
                this.filled.set(this.base.len_bytes());
                Ok(ReadClone(this))
            }
            Err(error) => Err((this.into_base(), error)),
        }
    }
}

/// Completes the wait of [`CloneBio::read()`].
///
/// # Safety
///
/// The block layer must call this for a clone whose `bi_private` is an [`IoCompletion`], alive
/// until it is completed.
unsafe extern "C" fn end_read(clone: *mut bindings::bio) {
    // The waiter returns only after `complete_all()` has released the lock of the completion, and
    // this is its last access.
    //
    // SAFETY: By this function's contract.
    unsafe { &*(*clone).bi_private.cast::<IoCompletion>() }.complete_all();
}

/// A clone that a read has filled, see [`CloneBio::read()`].
///
/// # Invariants
///
/// The clone is a read of a device of the target, owns its memory, and is at no device.
pub struct ReadClone<T: Target>(CloneBio<T>);

impl<T: Target> ReadClone<T> {
    /// Returns the clone.
    pub(in crate::block::dm) fn as_raw(&self) -> *mut bindings::bio {
        self.0.clone.as_ptr()
    }

    /// Returns the name that the target is registered under.
    pub(in crate::block::dm) fn target_name(&self) -> &CStr {
        self.0.base.ptr().inner().get_ref().name()
    }

    /// Returns the name of the device that the clone was read from, for messages.
    ///
    /// Context: Any context. Never sleeps.
    pub fn device_name(&self) -> DeviceName {
        let mut name = DeviceName([0; bindings::BDEVNAME_SIZE as usize]);
        // SAFETY: The clone is alive, and its device is open while the target lives, by the type
        // invariants. The buffer has room for `BDEVNAME_SIZE` bytes including the NUL.
        unsafe {
            bindings::bdev_name(
                (*self.as_raw()).bi_bdev,
                name.0.as_mut_ptr().cast(),
                name.0.len(),
            )
        };
        name
    }

    /// Returns the target, the clone's own memory, and the integrity data that the device returned.
    /// The data is empty if the base bio has no payload.
    ///
    /// Context: Any context. Never sleeps.
    pub fn segments_and_integrity(&mut self) -> (Pin<&T>, SegmentsMut<'_>, &[u8]) {
        let payload = self.0.base.ptr().integrity_bytes();
        let (target, _, own) = self.0.segments();

        // SAFETY: The payload is separate memory. It does not change until the clone is borrowed
        // mutably again, and it is borrowed now. The clone is at no device.
        (target, own, unsafe { &*payload })
    }

    /// Copies the data of the clone to its base bio, and frees the clone.
    ///
    /// Context: Any context. Never sleeps.
    pub fn copy_to_base(mut self) -> (Bio<T>, BlkResult) {
        let clone = self.0.clone.as_ptr();
        // SAFETY: The clone owns the table and its pages, by the type invariants, until it is freed
        // below.
        let own = unsafe { Segments::new((*clone).bi_io_vec, (*clone).bi_iter) };
        let (_, mut to) = self.0.base.segments_mut();
        let result = to.copy_from(own).map_err(|_| BlkError::IOERR);
        (self.0.into_base(), result)
    }

    /// Frees the clone, and returns its base bio.
    ///
    /// Context: Any context. Never sleeps.
    pub fn into_base(self) -> Bio<T> {
        self.0.into_base()
    }
}

/// The name of a block device, such as `dm-0` or `sda1`.
pub struct DeviceName([u8; bindings::BDEVNAME_SIZE as usize]);

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = CStr::from_bytes_until_nul(&self.0).unwrap_or_default();

        f.write_str(name.to_str().unwrap_or_default())
    }
}

impl<T: Target> PerBioRef<T> {
    /// See [`Bio::segments_and_integrity()`].
    #[inline]
    fn segments_and_integrity(&mut self) -> (Pin<&T>, SegmentsMut<'_>, &[u8]) {
        // The payload is separate memory, so both can be lent.
        let payload = self.integrity_bytes();
        let (target, segments) = self.segments_mut();

        // SAFETY: The payload does not change until the bio is borrowed mutably again, and it is
        // borrowed now. The bio is at no device: a `PerBioRef` only exists before submission and
        // after completion.
        (target, segments, unsafe { &*payload })
    }

    /// Returns the bytes of the payload, empty without a payload.
    fn integrity_bytes(&self) -> *const [u8] {
        self.integrity()
            .map(IntegrityPayload::as_slice)
            .unwrap_or_default()
    }

    /// Attaches the payload, if any, to `bio`, which is this bio or its clone.
    ///
    /// Fails if that is not possible, or if `bio` had a payload before: a bio gets a payload only
    /// once.
    ///
    /// # Safety
    ///
    /// `bio` must be alive and owned by the caller. Its device must be set and open. This bio must
    /// not be used until the device has completed `bio`.
    #[inline]
    pub(super) unsafe fn attach_integrity(&mut self, bio: *mut bindings::bio) -> Result {
        if !T::INTEGRITY_PAYLOADS {
            return Ok(());
        }
        // `REQ_INTEGRITY` stays set after a first attachment, even if the payload was taken.
        //
        // SAFETY: By this function's contract.
        if unsafe { (*bio).bi_opf } & bindings::REQ_INTEGRITY != 0 {
            return Err(EINVAL);
        }
        match self.integrity_mut() {
            None => Ok(()),
            // `attach()` allocates, and may sleep.
            Some(_) if !may_submit() => Err(EINVAL),
            // SAFETY: By this function's contract. The payload stays in the per-bio data: taking or
            // replacing it uses the bio.
            Some(payload) => unsafe { payload.attach(bio) },
        }
    }
}
