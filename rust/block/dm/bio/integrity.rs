// SPDX-License-Identifier: GPL-2.0

//! Bios with integrity data.
//!
//! [`Tags`] are given to a bio before it goes to a device, and from then on are part of it: they are
//! lent again when the bio is back, and freed when it leaves the target.

use kernel::{
    fmt,
    prelude::*, //
};

use core::mem::MaybeUninit;

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult,
            IntegrityProfile,
            Op,
            Segments,
            SegmentsMut,
            Tags, //
        },
        dm::target::{
            ctr::Table,
            devices::Device,
            Target, //
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
    per_bio::Ptr, //
};

impl Table<'_> {
    /// Returns what a device of this target keeps beside its sectors, [`None`] for nothing, and if
    /// the kernel has no `CONFIG_BLK_DEV_INTEGRITY`.
    ///
    /// Context: Any.
    pub fn integrity_profile(&self, device: Device) -> Option<IntegrityProfile> {
        let bdev = self.devices.bdev(device)?;
        // SAFETY: The device is open, see `Devices`.
        unsafe { IntegrityProfile::of(bdev) }
    }
}

impl<T: Target> MapBio<'_, T> {
    /// Has the device read or write `tags` with the bio.
    ///
    /// Replaces those that were set before. The bio is killed in the end if the device does not keep
    /// exactly as many bytes with its sectors.
    ///
    /// Context: Any; a bio with tags must only be remapped in process context.
    pub fn set_tags(&mut self, tags: Tags) {
        *self.ptr.tags_mut() = Some(tags);
    }
}

impl<T: Target> Bio<T> {
    /// Walks the memory of a read, as [`Bio::segments_mut()`], with what the device kept beside its
    /// sectors; [`None`] unless the operation is a read, and has tags.
    ///
    /// Context: Any.
    pub fn segments_and_tags(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>, &[u8])> {
        self.ptr_mut().segments_and_tags()
    }

    /// Takes the tags, to fill them.
    ///
    /// Context: Any.
    pub fn take_tags(&mut self) -> Option<Tags> {
        self.ptr_mut().tags_mut().take()
    }
}

impl<T: Target> EndBio<'_, T> {
    /// As [`Bio::segments_and_tags()`].
    ///
    /// Context: Any.
    pub fn segments_and_tags(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>, &[u8])> {
        self.ptr.segments_and_tags()
    }
}

impl<T: Target> CloneBio<T> {
    /// Has the device read or write `tags` with the clone.
    ///
    /// Replaces those of the bio that the clone stands for. The bio ends with [`BlkError::IOERR`]
    /// when the clone is sent if the device does not keep exactly as many bytes with its sectors.
    ///
    /// Context: Any.
    pub fn set_tags(&mut self, tags: Tags) {
        *self.base.ptr_mut().tags_mut() = Some(tags);
    }

    /// Reads into the clone what the bio that it stands for asked for, with its tags if it has some,
    /// and waits for it.
    ///
    /// Fails, and gives the bio back, as the device does; and with [`BlkError::IOERR`] if `device` is
    /// another target's, if the clone has no memory of its own or is no read, or where a bio cannot be
    /// sent and waited for: in an interrupt, and in [`Target::map()`], as bios are submitted only when
    /// that returned.
    ///
    /// Context: Process context, but not `map`; sleeps.
    pub fn read(self, device: Device, sector: u64) -> Result<ReadClone<T>, (Bio<T>, BlkError)> {
        let is_own_read = self.base.op() == Op::Read && self.base.ptr().clone_end().is_own();
        let Some(bdev) = self.base.ptr().inner().devices().bdev(device) else {
            return Err((self.into_base(), BlkError::IOERR));
        };
        if !is_own_read || !may_wait() {
            return Err((self.into_base(), BlkError::IOERR));
        }
        let mut this = self;
        let clone = this.clone.as_ptr();
        // SAFETY: The clone is alive, and nobody else's. The device is open as long as the target
        // lives.
        let iter = unsafe {
            bindings::bio_set_dev(clone, bdev);
            (*clone).bi_iter.bi_sector = sector;
            (*clone).bi_iter
        };
        // SAFETY: The clone is as it should be. Its tags are in the bio that it stands for, which
        // nobody uses until the device is done.
        if unsafe { this.base.ptr_mut().attach_tags(clone) }.is_err() {
            return Err((this.into_base(), BlkError::IOERR));
        }

        let mut done = MaybeUninit::uninit();
        let done: *mut bindings::completion = done.as_mut_ptr();
        // SAFETY: `done` is valid for writes, and stays where it is until this returns.
        unsafe { bindings::init_completion(done) };
        // SAFETY: The clone is nobody else's.
        unsafe {
            (*clone).bi_private = done.cast();
            (*clone).bi_end_io = Some(end_read);
        }
        // SAFETY: The bio is device mapper's clone, and does not end until this returned;
        // `accounts_remapped_io` is set for each target.
        unsafe { bindings::dm_submit_bio_remap(this.base.ptr().bio(), clone) };
        // SAFETY: `done` was initialised, and `end_read()` completes it.
        unsafe { bindings::wait_for_completion(done) };

        // SAFETY: The device is done with the clone, which is ours again.
        let result = unsafe {
            // The device used its position up, and may have sent it on to another.
            bindings::bio_set_dev(clone, bdev);
            (*clone).bi_iter = iter;
            BlkError::result_from_raw((*clone).bi_status)
        };
        match result {
            // INVARIANT: It was filled just now, is a read, has memory of its own, and its device was set
            // again.
            Ok(()) => Ok(ReadClone(this)),
            Err(error) => Err((this.into_base(), error)),
        }
    }
}

/// Hears that the device is done with a clone.
///
/// # Safety
///
/// The block layer must call this for a clone whose `bi_private` is a `completion`, alive until it
/// is completed.
unsafe extern "C" fn end_read(clone: *mut bindings::bio) {
    // Who waits returns only once this has let go of the lock of the completion, which is the last
    // use of it.
    //
    // SAFETY: By this function's contract.
    unsafe { bindings::complete_all((*clone).bi_private.cast()) };
}

/// A clone that a read has filled, see [`CloneBio::read()`].
///
/// # Invariants
///
/// The clone is a read of a device of the target's, has memory of its own, and no device has it.
pub struct ReadClone<T: Target>(CloneBio<T>);

impl<T: Target> ReadClone<T> {
    /// Returns the clone.
    pub(in crate::block::dm) fn as_raw(&self) -> *mut bindings::bio {
        self.0.clone.as_ptr()
    }

    /// Returns the name that the target is registered under.
    pub(in crate::block::dm) fn target_name(&self) -> &'static CStr {
        self.0.base.ptr().inner().get_ref().name()
    }

    /// Returns the name of the device that it was read from, for messages.
    ///
    /// Context: Any.
    pub fn device_name(&self) -> DeviceName {
        let mut name = DeviceName([0; bindings::BDEVNAME_SIZE as usize]);
        // SAFETY: The clone is alive, and its device open as long as the target lives, by the type
        // invariants. There is room for as many bytes, which end in a NUL.
        unsafe {
            bindings::bdev_name(
                (*self.as_raw()).bi_bdev,
                name.0.as_mut_ptr().cast(),
                name.0.len(),
            )
        };
        name
    }

    /// Walks the clone's own memory, with what the device kept beside the sectors, nothing if it had
    /// not to tell.
    ///
    /// Context: Any.
    pub fn segments_and_tags(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>, &[u8])> {
        let tags = match self.0.base.ptr().tags() {
            Some(tags) => core::ptr::from_ref(tags.as_slice()),
            None => core::ptr::from_ref(&[]),
        };
        let (target, _, own) = self.0.segments();

        // SAFETY: The tags are in memory of their own, and stay as they are until somebody borrows
        // the clone mutably, which is borrowed already. No device has it.
        Some((target, own?, unsafe { &*tags }))
    }

    /// Copies what is in the clone to the bio that it stands for, and frees the clone.
    ///
    /// Context: Any.
    pub fn copy_to_base(mut self) -> (Bio<T>, BlkResult) {
        let clone = self.0.clone.as_ptr();
        // SAFETY: The table and the pages in it are the clone's own, by the type invariants, and
        // stay until it is freed below.
        let own = unsafe { Segments::new((*clone).bi_io_vec, (*clone).bi_iter) };
        let result = match self.0.base.segments_mut() {
            Some((_, mut to)) => to.copy_from(own).map_err(|_| BlkError::IOERR),
            None => Err(BlkError::IOERR),
        };
        (self.0.into_base(), result)
    }

    /// Frees the clone, and returns the bio that it stands for.
    ///
    /// Context: Any.
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

impl<T: Target> Ptr<T> {
    /// See [`Bio::segments_and_tags()`].
    #[inline]
    fn segments_and_tags(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>, &[u8])> {
        // The tags are in memory of their own, so both can be lent.
        let tags = core::ptr::from_ref(self.tags()?.as_slice());
        let (target, segments) = self.segments_mut()?;

        // SAFETY: The tags stay as they are until somebody borrows the bio mutably, and it is
        // borrowed already. No device has it: who has a `Ptr` took it back, or did not send it yet.
        Some((target, segments, unsafe { &*tags }))
    }

    /// Has the device of `bio`, which is this one or a clone that stands for it, read or write the
    /// tags, if there are some.
    ///
    /// Fails if it cannot, or if `bio` had tags before: a bio has them once.
    ///
    /// # Safety
    ///
    /// `bio` must be alive, with its device set, which is open, and owned by the caller. This bio
    /// must not be used until the device is done with `bio`.
    #[inline]
    pub(super) unsafe fn attach_tags(&mut self, bio: *mut bindings::bio) -> Result {
        // What a bio has had attached stays with it, though the tags may have been taken.
        //
        // SAFETY: By this function's contract.
        if unsafe { (*bio).bi_opf } & bindings::REQ_INTEGRITY != 0 {
            return Err(EINVAL);
        }
        match self.tags_mut() {
            None => Ok(()),
            // It allocates.
            Some(_) if !may_submit() => Err(EINVAL),
            // SAFETY: By this function's contract. The tags stay in the per-bio data: who takes or
            // replaces them uses the bio.
            Some(tags) => unsafe { tags.attach(bio) },
        }
    }
}
