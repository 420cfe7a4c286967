// SPDX-License-Identifier: GPL-2.0

//! The I/O path of a bio through the target.
//!
//! - A read goes to the device unchanged. When it completes, its pages are decrypted in place.
//! - A write is encrypted into bounce pages of the target, and those are sent to the device. The
//!   target reads the submitter's pages once and never modifies them. Plaintext never reaches the
//!   device.
//! - [`Dispatch`](crate::dispatch::Dispatch) selects the task that encrypts and decrypts.
//! - A bio without data (a flush, a discard, a zone reset) goes to the device unchanged.
//!
//! Writes must reach a zoned device whole and in order, so the target does not split them or queue
//! them to workers. Device mapper emulates zone append there, because the IV depends on the sector,
//! and the sector of a zone append is not known in advance.
//!
//! On devices that store a tuple beside each sector, `map` allocates the tuples of the bio. The
//! reader may modify its pages while the read is in flight; the kernel allows that to some readers.
//! So a sector that does not match its tag is read again, into bounce pages of the target. A second
//! mismatch is an error of the device, and the kernel log and the audit log report it.

use kernel::prelude::*;

use kscale::{
    block::{
        bio::{
            BlkError,
            Op,
            SegmentsMut,
            SECTOR_SIZE, //
        },
        dm, //
    },
    lib::ratelimit,
    sync::workqueue::Workqueue, //
};

use crate::{
    format::Fault,
    stats::{
        self,
        INLINE_READS,
        INLINE_WRITES,
        PAGES,
        READS,
        SOFTIRQ_READS,
        SORTED_WRITES,
        WRITES, //
    },
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
    let device_sector = target.config.start.wrapping_add(sector);

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
    let options = &target.config.options;
    let len_sectors = u64::from(bio.len_bytes() / SECTOR_SIZE);
    if !options.is_aligned(bio.sector()) || !options.is_aligned(len_sectors) {
        return bio.kill();
    }

    if let Some(pool) = &target.tuples {
        if pool.set_tuples(&target.config, &mut bio).is_err() {
            return bio.kill();
        }
    }
    bio.data().sector = sector;
    match bio.op() {
        Op::Read => bio.remap(target.device, device_sector),
        Op::Write if target.dispatch.is_inline_write(&bio) => bio.defer(|bio| {
            target.shared.stats.at::<INLINE_WRITES>().inc();
            write(bio);
        }),
        Op::Write => bio.defer(|bio| bio.queue(crypt_queue, write)),
        _ => bio.kill(),
    }
}

/// Returns the workqueue that encrypts and decrypts bios.
fn crypt_queue(target: Pin<&Crypt>) -> &Workqueue {
    &target.get_ref().dispatch.crypt
}

/// Encrypts a write and sends it to the device.
fn write(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let mut tuples = bio.take_integrity();
    let bounced = bio.bounce_compound(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    let mut clone = match bounced {
        Ok(clone) => clone,
        Err(bio) => return bio.end(Err(BlkError::IOERR)),
    };

    let (target, plaintext, ciphertext) = clone.segments();
    let (device, device_sector) = (target.device, target.config.start.wrapping_add(sector));
    let sorted_writes = target.dispatch.sorted_writes;
    let stats = &target.shared.stats;
    stats.at::<WRITES>().inc();
    stats
        .at::<PAGES>()
        .add(stats::pages(plaintext.remaining_bytes()));
    let bytes = tuples.as_mut().map(|tuples| tuples.as_mut_slice());
    let result = match &*target.keys.read() {
        Some(format) => format.encrypt(
            &target.config,
            sector,
            plaintext,
            ciphertext,
            bytes.unwrap_or_default(),
        ),
        None => Err(BlkError::IOERR),
    };
    if sorted_writes && result.is_ok() {
        stats.at::<SORTED_WRITES>().inc();
    }
    if let Err(error) = result {
        return clone.into_base().end(Err(error));
    }

    if let Some(tuples) = tuples {
        clone.set_integrity(tuples);
    }
    if sorted_writes {
        clone.submit_sorted(
            |target| &target.get_ref().send,
            device,
            device_sector,
            dm::IrqBio::end,
        );
    } else {
        clone.submit(device, device_sector, dm::IrqBio::end);
    }
}

/// Handles the completion of a bio by the device.
///
/// Context: The context of `dm::Target::end_io()`. Queues work that takes time.
pub(crate) fn end_io(mut bio: dm::EndBio<'_, Crypt>) -> dm::EndIoResult<'_, Crypt> {
    if bio.op() != Op::Read || bio.result().is_err() {
        return bio.done();
    }
    let dispatch = &bio.target().get_ref().dispatch;
    if !dispatch.read_inline || !bio.irqs_enabled() {
        return if dispatch.read_inline && dispatch.read_in_softirq {
            bio.defer(|bio| bio.queue_bh(read_in_softirq))
        } else {
            bio.defer(|bio| bio.queue(crypt_queue, read))
        };
    }

    let sector = bio.data().sector;
    let result = decrypt(sector, bio.segments_and_integrity());
    if lacks_memory(&result) {
        return bio.defer(|bio| bio.queue(crypt_queue, read));
    }
    bio.target().shared.stats.at::<INLINE_READS>().inc();
    match result {
        Ok(()) => bio.done(),
        Err(Fault::Changed { .. }) => bio.defer(|bio| bio.queue(crypt_queue, recheck)),
        Err(Fault::Other(error)) => bio.done_with(Err(error)),
    }
}

/// Returns whether a worker can repeat a decryption that failed in atomic context: `RESOURCE` is
/// returned before the first sector is decrypted.
#[inline]
fn lacks_memory(result: &Result<(), Fault>) -> bool {
    matches!(result, Err(Fault::Other(BlkError::RESOURCE)))
}

/// Decrypts a completed read and ends it.
fn read(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;

    match decrypt(sector, bio.segments_and_integrity()) {
        Err(Fault::Changed { .. }) => recheck(bio),
        result => bio.end(result.map_err(BlkError::from)),
    }
}

/// As [`read()`], in softirq context, for a format without tuples.
fn read_in_softirq(mut bio: dm::IrqBio<Crypt>) {
    bio.target().shared.stats.at::<SOFTIRQ_READS>().inc();
    let sector = bio.data().sector;
    let result = decrypt(sector, bio.segments_and_integrity());
    bio.end(result.map_err(BlkError::from));
}

/// Decrypts the memory of a read in place. It starts at `sector` of the target.
#[inline]
fn decrypt(
    sector: u64,
    (target, data, tuples): (Pin<&Crypt>, SegmentsMut<'_>, &[u8]),
) -> Result<(), Fault> {
    let result = match &*target.keys.read() {
        Some(format) => format.decrypt(&target.config, sector, data, tuples),
        None => Err(BlkError::IOERR.into()),
    };
    if !lacks_memory(&result) {
        target.shared.stats.at::<READS>().inc();
    }
    result
}

/// Reads the data again into bounce pages, checks the tags there, and ends the read.
#[cold]
fn recheck(mut bio: dm::Bio<Crypt>) {
    let sector = bio.data().sector;
    let target = bio.target();
    let (device, device_sector) = (target.device, target.config.start.wrapping_add(sector));
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

    let (target, data, tuples) = clone.segments_and_integrity();
    let result = match &*target.keys.read() {
        Some(format) => format.decrypt(&target.config, sector, data, tuples),
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

/// Reports that a sector or its tag is not as written.
fn blame_device(clone: &dm::ReadClone<Crypt>, sector: u64) {
    if ratelimit::printk_ratelimit() {
        let device = clone.device_name();
        pr_err!("{device}: INTEGRITY AEAD ERROR, sector {sector}\n");
    }
    clone.audit(c"integrity-aead", sector, false);
}
