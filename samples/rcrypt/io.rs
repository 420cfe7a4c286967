// SPDX-License-Identifier: GPL-2.0

//! The I/O path of a bio through the target.
//!
//! - A read goes to the device unchanged. When it completes, its pages are decrypted in place.
//! - A write is encrypted into bounce pages of the target, and those are sent to the device. The
//!   target reads the submitter's pages once and never modifies them. Plaintext never reaches the
//!   device.
//! - [`Work`](crate::dispatch::Work) decides which task encrypts and decrypts.
//! - A bio without data (a flush, a discard, a zone reset) goes to the device unchanged.
//!
//! Writes must reach a zoned device whole and in order, so the target does not split them or queue
//! them to workers. Device mapper emulates zone append there, because the IV depends on the sector,
//! and the sector of a zone append is not known in advance.

use kernel::prelude::*;

use kscale::{
    block::{
        bio::{
            BlkError,
            BlkResult,
            Op,
            SegmentsMut,
            SECTOR_SIZE, //
        },
        dm, //
    },
    sync::workqueue::Workqueue, //
};

use crate::{
    stats::{
        self,
        Place, //
    },
    tagged,
    Crypt, //
};

/// The per-bio data of the target.
#[derive(Default)]
pub(crate) struct PerBio {
    /// The first sector, relative to the start of the target.
    pub(crate) sector: u64,
}

/// Maps a new bio.
pub(crate) fn map<'a>(
    target: Pin<&Crypt>,
    mut bio: dm::MapBio<'a, Crypt>,
) -> dm::MapResult<'a, Crypt> {
    let sector = bio.target_sector();
    // OVERFLOW: Wraps as in C; device mapper checks that the device is long enough.
    let device_sector = target.start.wrapping_add(sector);

    if bio.is_flush() || matches!(bio.op(), Op::Discard | Op::ZoneManagement) {
        // A flush applies to the whole device.
        let to = match (bio.is_flush(), bio.len_bytes()) {
            (true, 0) => bio.sector(),
            _ => device_sector,
        };
        return bio.remap(target.device, to);
    }

    let is_write = bio.op() != Op::Read;
    let max_sectors = if bio.is_atomic() || (target.is_zoned && is_write) {
        target.sizes.max_whole_sectors(is_write)
    } else {
        target.sizes.max_sectors(is_write)
    };
    if bio.len_bytes() / SECTOR_SIZE > max_sectors.get() && bio.accept_partial(max_sectors).is_err()
    {
        return bio.kill();
    }
    // A part of an encrypted sector has no IV of its own.
    let len_sectors = u64::from(bio.len_bytes() / SECTOR_SIZE);
    if !target.options.is_aligned(bio.sector()) || !target.options.is_aligned(len_sectors) {
        return bio.kill();
    }

    if let Some(integrity) = &target.integrity {
        if integrity.set_integrity(&mut bio).is_err() {
            return bio.kill();
        }
    }
    bio.data().sector = sector;
    match bio.op() {
        Op::Read => bio.remap(target.device, device_sector),
        Op::Write if target.work.encrypts_at_once => bio.defer(|bio| {
            stats::count(Place::EncryptedAtOnce);
            write(bio);
        }),
        Op::Write => bio.defer(|bio| bio.queue(crypt_queue, write)),
        _ => bio.kill(),
    }
}

/// Returns the workqueue that encrypts and decrypts bios.
pub(crate) fn crypt_queue(target: Pin<&Crypt>) -> &Workqueue {
    &target.get_ref().work.crypt
}

/// Handles the completion of a bio by the device.
///
/// Context: The context of `dm::Target::end_io()`. Queues work that takes time.
pub(crate) fn end_io(mut bio: dm::EndBio<'_, Crypt>) -> dm::EndIoResult<'_, Crypt> {
    if bio.op() != Op::Read || bio.result().is_err() {
        return bio.done();
    }
    if bio.target().integrity.is_some() {
        return tagged::end_io(bio);
    }
    if !bio.target().work.decrypts_at_once {
        return bio.defer(|bio| bio.queue(crypt_queue, decrypt));
    }
    if !bio.irqs_enabled() {
        return bio.defer(|bio| bio.queue_bh(decrypt_soft));
    }

    stats::count(Place::DecryptedAtOnce);
    let sector = bio.data().sector;
    let result = decrypt_segments(sector, bio.segments_mut());
    bio.done_with(result)
}

/// Decrypts a completed read and ends it.
fn decrypt(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let result = decrypt_segments(sector, bio.segments_mut());
    bio.end(result);
}

/// As [`decrypt()`], in softirq context.
fn decrypt_soft(mut bio: dm::IrqBio<Crypt>) {
    stats::count(Place::DecryptedInSoftirq);
    let sector = bio.data().sector;
    let result = decrypt_segments(sector, bio.segments_mut());
    bio.end(result);
}

/// Decrypts `segments` in place. They start at `sector` of the target.
#[inline]
fn decrypt_segments(sector: u64, (target, data): (Pin<&Crypt>, SegmentsMut<'_>)) -> BlkResult {
    stats::count_read();
    target
        .keys
        .with(|converter| converter.decrypt(sector.wrapping_add(target.iv_offset), data))
}

/// Encrypts a write and sends it to the device.
fn write(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let tags = bio.take_integrity();
    let bounced = bio.bounce_compound(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    let mut clone = match bounced {
        Ok(clone) => clone,
        Err(bio) => return bio.end(Err(BlkError::IOERR)),
    };

    let (target, plaintext, ciphertext) = clone.segments();
    let (device, device_sector) = (target.device, target.start.wrapping_add(sector));
    let sends_in_order = target.work.sends_in_order;
    stats::count_write(plaintext.remaining_bytes());
    let has_tags = target.integrity.is_some();
    let result = if has_tags {
        tagged::encrypt(&mut clone, sector, tags)
    } else {
        target.keys.with(|converter| {
            converter.encrypt(sector.wrapping_add(target.iv_offset), plaintext, ciphertext)
        })
    };

    match result {
        Ok(()) if sends_in_order => {
            stats::count(Place::SentInOrder);
            clone.submit_sorted(
                |target| &target.get_ref().send,
                device,
                device_sector,
                dm::IrqBio::end,
            );
        }
        Ok(()) => clone.submit(device, device_sector, dm::IrqBio::end),
        Err(error) => clone.into_base().end(Err(error)),
    }
}
