// SPDX-License-Identifier: GPL-2.0

//! The bios of a mirror, from the queue to their end.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use kscale::{
    block::{
        bio::{
            BlkError,
            BlkResult,
            Op, //
        },
        dm, //
    },
    sync::srcu::{
        FastUpDown,
        OwnedDownGuard, //
    }, //
};

use crate::{
    status::Failure,
    Mirror, //
};

/// The state of a bio.
pub(crate) struct BioState {
    /// The leg that a read was sent to.
    pub(crate) leg: Option<usize>,
    /// The legs of a write, one bit each.
    pub(crate) legs: u32,
    /// The legs that have failed, one bit each.
    failed: Atomic<u32>,
    /// The section of a write that the copy of a region waits for.
    pub(crate) section: Option<OwnedDownGuard<FastUpDown>>,
}

impl Default for BioState {
    fn default() -> Self {
        Self {
            leg: None,
            legs: 0,
            failed: Atomic::new(0),
            section: None,
        }
    }
}

/// Ends a read, or queues it for the other leg.
pub(crate) fn end_read<'a>(mut bio: dm::EndBio<'a, Mirror>) -> dm::EndIoResult<'a, Mirror> {
    let (Err(error), Some(leg)) = (bio.result(), bio.data().leg) else {
        return bio.done();
    };
    if is_unsupported(error) {
        return bio.done();
    }
    // A bio is sent to a leg once.
    let failed = bio.data().failed.fetch_add(1 << leg, Relaxed) | 1 << leg;
    let set = &bio.target().get_ref().set;
    set.fail(leg, Failure::Read);
    if set.leg_for_read(bio.target_sector(), failed).is_none() {
        return bio.done();
    }
    bio.defer(|bio| bio.queue(|mirror| &mirror.get_ref().queue, read_again))
}

/// Sends a read to the other leg.
fn read_again(mut bio: dm::Bio<Mirror>) {
    let (sector, failed) = (bio.target_sector(), bio.data().failed.load(Relaxed));
    let set = &bio.target().get_ref().set;
    let Some(leg) = set.leg_for_read(sector, failed) else {
        return bio.end(Err(BlkError::IOERR));
    };
    let (device, sector) = set.line.locate(leg, sector);
    bio.data().leg = Some(leg);
    bio.submit(device, sector);
}

/// Sends a write, a flush or a discard to the primary leg, and to the other one if it is in sync.
pub(crate) fn write(bio: dm::Bio<Mirror>) {
    let set = bio.target().get_ref().set.clone();
    let Some(mut bio) = set.begin_write(bio) else {
        return;
    };
    let (legs, sector) = (bio.data().legs, sector(&bio));
    let parent = bio.into_parent(end_write);

    for leg in (0..2).filter(|leg| legs & (1 << leg) != 0) {
        let (device, sector) = set.line.locate(leg, sector);
        match parent.share(|mirror| &mirror.get_ref().bios) {
            Some(child) => child.submit(device, sector, end_child),
            None => parent.set_error(BlkError::RESOURCE),
        }
    }
}

/// Handles the completion of a write to a leg.
fn end_child(parent: dm::IrqParentBio<Mirror>, device: dm::DeviceIndex, result: BlkResult) {
    let Err(error) = result else {
        return;
    };
    let leg = parent.target().set.line.leg_of(device);
    match leg {
        Some(leg) if parent.op() == Op::Write && !is_unsupported(error) => {
            parent.data().failed.add(1 << leg, Relaxed);
        }
        _ => parent.set_error(error),
    }
}

/// Ends a write after the last leg.
fn end_write(mut bio: dm::IrqBio<Mirror>, result: BlkResult) {
    let (legs, failed) = (bio.data().legs, bio.data().failed.load(Relaxed));
    let set = &bio.target().get_ref().set;
    let result = match failed {
        0 => result,
        _ => set.fail_write(sector(&bio), legs, failed).and(result),
    };
    bio.data().section = None;
    bio.end(result);
}

/// Returns the first sector of a bio, or 0 for a flush: no region is in sync unless the flush is.
pub(crate) fn sector<C>(bio: &dm::Bio<Mirror, C>) -> u64 {
    match bio.len_bytes() {
        0 => 0,
        _ => bio.target_sector(),
    }
}

/// Returns whether an error is no failure of the device: it does not support the operation.
fn is_unsupported(error: BlkError) -> bool {
    matches!(error, BlkError::NOTSUPP | BlkError::INVAL)
}
