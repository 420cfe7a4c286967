// SPDX-License-Identifier: GPL-2.0

//! The way of a bio with tags through the target, after `io.rs` gave it its tags.
//!
//! A read fills memory of the reader, who may write to it meanwhile, as the kernel lets some of them.
//! So what fails the check of its tag is read once more, into pages of the target's own, and only if
//! it fails again it is the device that is to blame. Then the kernel log and the audit log say so.

use kernel::prelude::*;

use kscale::{
    block::{
        bio::{
            BlkError,
            BlkResult,
            SegmentsMut, //
        },
        dm, //
    },
    lib::ratelimit, //
};

use crate::{
    cryptor::Fault,
    io::crypt_queue,
    stats::{
        self,
        Place, //
    },
    Crypt, //
};

/// Takes a read back from the device. Any context, so what takes time may have to go elsewhere.
pub(crate) fn end_io(mut bio: dm::EndBio<'_, Crypt>) -> dm::EndIo<'_, Crypt> {
    if !bio.target().work.decrypts_at_once || !bio.may_take_time() {
        return bio.defer(|bio| bio.queue(crypt_queue, decrypt));
    }

    stats::count(Place::DecryptedAtOnce);
    let sector = bio.data().sector;
    match decrypt_segments(sector, bio.segments_and_tags()) {
        Ok(()) => bio.done(),
        Err(Fault::Changed { .. }) => bio.defer(|bio| bio.queue(crypt_queue, recheck)),
        // Before the first sector.
        Err(Fault::Other(BlkError::RESOURCE)) => bio.defer(|bio| bio.queue(crypt_queue, decrypt)),
        Err(Fault::Other(error)) => bio.done_with(Err(error)),
    }
}

/// Decrypts what a read brought, and ends it.
fn decrypt(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;

    match decrypt_segments(sector, bio.segments_and_tags()) {
        Err(Fault::Changed { .. }) => recheck(bio),
        result => bio.end(result.map_err(BlkError::from)),
    }
}

/// Decrypts in place what starts at `sector` of the target.
#[inline]
fn decrypt_segments(
    sector: u64,
    segments: Option<(Pin<&Crypt>, SegmentsMut<'_>, &[u8])>,
) -> Result<(), Fault> {
    let (target, data, tags) = segments.ok_or(BlkError::IOERR)?;

    stats::count_read();
    target
        .keys
        .with(|cryptor| cryptor.decrypt_with_tags(sector, target.iv_offset, data, tags))
}

/// Reads once more what failed the check, checks it where nobody writes to it, and ends the read.
#[cold]
fn recheck(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let target = bio.target();
    let (device, device_sector) = (target.device, target.start.wrapping_add(sector));
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    let clone = match bounced {
        Ok(clone) => clone,
        Err(bio) => return bio.end(Err(BlkError::PROTECTION)),
    };
    let mut clone = match clone.read(device, device_sector) {
        Ok(clone) => clone,
        Err((bio, error)) => return bio.end(Err(error)),
    };

    let result = match clone.segments_and_tags() {
        Some((target, data, tags)) => target
            .keys
            .with(|cryptor| cryptor.decrypt_with_tags(sector, target.iv_offset, data, tags)),
        None => Err(BlkError::IOERR.into()),
    };
    if let Err(Fault::Changed { sector }) = result {
        blame_device(&clone, sector);
    }
    let (bio, result) = match result {
        Ok(()) => clone.copy_to_base(),
        Err(fault) => (clone.into_base(), Err(fault.into())),
    };
    bio.end(result);
}

/// Says that a sector, or its tag, is not what was written.
fn blame_device(clone: &dm::ReadClone<Crypt>, sector: u64) {
    if ratelimit::may_print() {
        let device = clone.device_name();
        pr_err!("{device}: INTEGRITY AEAD ERROR, sector {sector}\n");
    }
    clone.audit(c"integrity-aead", sector, false);
}

/// Encrypts a write into its clone, and gives that its tags.
pub(crate) fn encrypt(
    clone: &mut dm::CloneBio<Crypt>,
    sector: u64,
    tags: Option<kscale::block::bio::Tags>,
) -> BlkResult {
    let mut tags = tags.ok_or(BlkError::IOERR)?;
    let (target, plaintext, ciphertext) = clone.segments();
    let ciphertext = ciphertext.ok_or(BlkError::IOERR)?;

    target.keys.with(|cryptor| {
        cryptor.encrypt_with_tags(
            sector,
            target.iv_offset,
            plaintext,
            ciphertext,
            tags.as_mut_slice(),
        )
    })?;
    clone.set_tags(tags);
    Ok(())
}
