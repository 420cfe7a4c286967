// SPDX-License-Identifier: GPL-2.0

//! The way of a bio with tags through the target, after `io.rs` gave it its tags.
//!
//! A read fills memory of the reader, who may write to it meanwhile, as the kernel lets some of them.
//! So what fails the check of its tag is read once more, into pages of the target's own, and only if
//! it fails again it is the device that is to blame.

use kscale::{
    bio::{
        BlkError,
        BlkResult, //
    },
    dm, //
};

use crate::{
    stats,
    Crypt, //
};

/// Decrypts what a read brought, and ends it.
pub(crate) fn decrypt(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let result = match bio.segments_and_tags() {
        Some((target, data, tags)) => {
            stats::count_read();
            target.keys.with(|cryptor| {
                cryptor.decrypt_with_tags(sector, target.iv_offset, data, tags, false)
            })
        }
        None => Err(BlkError::IOERR),
    };

    match result {
        Err(BlkError::PROTECTION) => recheck(bio, sector),
        result => bio.end(result),
    }
}

/// Reads once more what failed the check, checks it where nobody writes to it, and ends the read.
#[cold]
fn recheck(bio: dm::Bio<Crypt>, sector: u64) {
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
            .with(|cryptor| cryptor.decrypt_with_tags(sector, target.iv_offset, data, tags, true)),
        None => Err(BlkError::IOERR),
    };
    let (bio, result) = match result {
        Ok(()) => clone.copy_to_base(),
        Err(error) => (clone.into_base(), Err(error)),
    };
    bio.end(result);
}

/// Encrypts a write into its clone, and gives that its tags.
pub(crate) fn encrypt(
    clone: &mut dm::CloneBio<Crypt>,
    sector: u64,
    tags: Option<kscale::bio::Tags>,
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
