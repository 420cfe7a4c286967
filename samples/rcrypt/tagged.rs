// SPDX-License-Identifier: GPL-2.0

//! The I/O path of a bio with tags, after `io.rs` allocated its tags.
//!
//! The reader may modify its pages while the read is in flight; the kernel allows that to some
//! readers. So a sector that does not match its tag is read again, into bounce pages of the target.
//! A second mismatch is an error of the device, and the kernel log and the audit log report it.

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
    format::Fault,
    io::crypt_queue,
    stats::{
        self,
        Place, //
    },
    Crypt, //
};

/// Handles the completion of a read by the device.
///
/// Context: The context of `dm::Target::end_io()`. Queues work that takes time.
pub(crate) fn end_io(mut bio: dm::EndBio<'_, Crypt>) -> dm::EndIoResult<'_, Crypt> {
    if !bio.target().work.decrypts_at_once || !bio.irqs_enabled() {
        return bio.defer(|bio| bio.queue(crypt_queue, decrypt));
    }

    stats::count(Place::DecryptedAtOnce);
    let sector = bio.data().sector;
    match decrypt_segments(sector, bio.segments_and_integrity()) {
        Ok(()) => bio.done(),
        Err(Fault::Changed { .. }) => bio.defer(|bio| bio.queue(crypt_queue, recheck)),
        // `RESOURCE` is returned before the first sector is decrypted.
        Err(Fault::Other(BlkError::RESOURCE)) => bio.defer(|bio| bio.queue(crypt_queue, decrypt)),
        Err(Fault::Other(error)) => bio.done_with(Err(error)),
    }
}

/// Decrypts a completed read and ends it.
fn decrypt(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;

    match decrypt_segments(sector, bio.segments_and_integrity()) {
        Err(Fault::Changed { .. }) => recheck(bio),
        result => bio.end(result.map_err(BlkError::from)),
    }
}

/// Decrypts `segments` in place. They start at `sector` of the target.
#[inline]
fn decrypt_segments(
    sector: u64,
    (target, data, tags): (Pin<&Crypt>, SegmentsMut<'_>, &[u8]),
) -> Result<(), Fault> {
    stats::count_read();
    target
        .keys
        .with(|cryptor| cryptor.decrypt_with_tags(sector, target.iv_offset, data, tags))
}

/// Reads the data again into bounce pages, checks the tags there, and ends the read.
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

    let (target, data, tags) = clone.segments_and_integrity();
    let result = target
        .keys
        .with(|cryptor| cryptor.decrypt_with_tags(sector, target.iv_offset, data, tags));
    if let Err(Fault::Changed { sector }) = result {
        blame_device(&clone, sector);
    }
    let (bio, result) = match result {
        Ok(()) => clone.copy_to_base(),
        Err(fault) => (clone.into_base(), Err(fault.into())),
    };
    bio.end(result);
}

/// Reports that a sector or its tag is not as written.
fn blame_device(clone: &dm::ReadClone<Crypt>, sector: u64) {
    if ratelimit::printk_ratelimit() {
        let device = clone.device_name();
        pr_err!("{device}: INTEGRITY AEAD ERROR, sector {sector}\n");
    }
    clone.audit(c"integrity-aead", sector, false);
}

/// Encrypts a write into its clone and attaches the tags to the clone.
pub(crate) fn encrypt(
    clone: &mut dm::CloneBio<Crypt>,
    sector: u64,
    tags: Option<kscale::block::bio::IntegrityPayload>,
) -> BlkResult {
    let mut tags = tags.ok_or(BlkError::IOERR)?;
    let (target, plaintext, ciphertext) = clone.segments();

    target.keys.with(|cryptor| {
        cryptor.encrypt_with_tags(
            sector,
            target.iv_offset,
            plaintext,
            ciphertext,
            tags.as_mut_slice(),
        )
    })?;
    clone.set_integrity(tags);
    Ok(())
}
