// SPDX-License-Identifier: GPL-2.0

//! The way of a bio through the target.
//!
//! - A read goes to the device as it is, and when it comes back, a worker decrypts the pages that
//!   it filled, in place.
//! - A write waits for a worker, which encrypts it into pages of the target's own and sends those
//!   to the device. The writer's pages are only read, once, and plaintext never reaches the device.
//! - A flush or a discard has no data and goes to the device as it is.

use kernel::prelude::*;

use core::num::NonZeroU32;

use kscale::{
    bio::{
        BlkError,
        Op,
        SECTOR_SIZE, //
    },
    dm, //
};

use crate::{
    stats,
    Crypt, //
};

/// The length of the longest bio in sectors; device mapper sends the rest of a longer one in
/// another. As in dm-crypt: shorter bios occupy more CPUs at once, longer ones cost less each.
pub(crate) const MAX_BIO_SECTORS: NonZeroU32 = match NonZeroU32::new(131072 / SECTOR_SIZE) {
    Some(sectors) => sectors,
    None => NonZeroU32::MIN,
};

/// What is kept with each bio.
#[derive(Default)]
pub(crate) struct PerBio {
    /// The first sector, relative to the begin of the target.
    sector: u64,
}

/// Decides what becomes of a new bio.
pub(crate) fn map<'a>(target: Pin<&Crypt>, mut bio: dm::MapBio<'a, Crypt>) -> dm::Map<'a, Crypt> {
    let sector = bio.target_sector();
    // OVERFLOW: Wraps as in C; device mapper saw to it that the device is long enough.
    let device_sector = target.start.wrapping_add(sector);

    if bio.is_flush() || bio.op() == Op::Discard {
        // A flush is for the whole device.
        let to = match bio.len_bytes() {
            0 => bio.sector(),
            _ => device_sector,
        };
        return bio.remap(target.device, to);
    }

    if bio.len_bytes() / SECTOR_SIZE > MAX_BIO_SECTORS.get()
        && bio.accept_partial(MAX_BIO_SECTORS).is_err()
    {
        return bio.kill();
    }
    // The IV of a part of a sector would be that of the whole.
    let len_sectors = u64::from(bio.len_bytes() / SECTOR_SIZE);
    if !target.options.is_aligned(bio.sector()) || !target.options.is_aligned(len_sectors) {
        return bio.kill();
    }

    bio.data().sector = sector;
    match bio.op() {
        Op::Read => bio.remap(target.device, device_sector),
        Op::Write => bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, write)),
        _ => bio.kill(),
    }
}

/// Takes a bio back from the device. Any context, so what takes time goes to a worker.
pub(crate) fn end_io(bio: dm::EndBio<'_, Crypt>) -> dm::EndIo<'_, Crypt> {
    if bio.op() == Op::Read && bio.result().is_ok() {
        bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, decrypt))
    } else {
        bio.done()
    }
}

/// Decrypts what a read brought, and ends it.
fn decrypt(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;

    let result = match bio.segments_mut() {
        Some((target, data)) => target
            .keys
            .with(|converter| converter.decrypt(sector.wrapping_add(target.iv_offset), data)),
        None => Err(BlkError::IOERR),
    };
    stats::count_read();
    bio.end(result);
}

/// Encrypts a write, and sends it to the device.
fn write(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    let mut clone = match bounced {
        Ok(clone) => clone,
        Err(bio) => return bio.end(Err(BlkError::IOERR)),
    };

    let (target, plaintext, ciphertext) = clone.segments();
    let (device, device_sector) = (target.device, target.start.wrapping_add(sector));
    stats::count_write(plaintext.remaining_bytes());
    let result = match ciphertext {
        Some(ciphertext) => target.keys.with(|converter| {
            converter.encrypt(sector.wrapping_add(target.iv_offset), plaintext, ciphertext)
        }),
        None => Err(BlkError::IOERR),
    };

    match result {
        Ok(()) => clone.submit(device, device_sector, dm::Bio::end),
        Err(error) => clone.into_base().end(Err(error)),
    }
}
