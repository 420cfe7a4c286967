// SPDX-License-Identifier: GPL-2.0

//! The legs of a mirror: which of them have the data of a region, and the copy from one to the
//! other.

use kernel::{
    impl_has_work,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLockIrq, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use core::mem;

use kscale::{
    block::{
        bio::{
            BlkError,
            BlkResult, //
        },
        dm, //
    },
    sync::srcu::{
        Domain,
        FastUpDown, //
    }, //
};

use crate::{
    bios,
    line::Line,
    status::Failure,
    Mirror, //
};

/// The set of legs.
#[pin_data]
pub(crate) struct MirrorSet {
    pub(crate) line: Line,
    pub(crate) event: dm::TableEvent,
    pub(crate) kcopyd: dm::KcopydClient,
    /// Each write in flight has a section.
    pub(crate) writes: Domain<FastUpDown>,
    #[pin]
    pub(crate) state: SpinLockIrq<State>,
    /// Held by the task that copies.
    #[pin]
    pub(crate) copier: Mutex<()>,
    #[pin]
    pub(crate) work: Work<MirrorSet>,
}

/// The state of a set. The primary leg has all data.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) primary: usize,
    /// The number of regions at the start that are in sync: the other leg has their data, too.
    pub(crate) synced: u64,
    /// The region that is being copied, or is about to be.
    pub(crate) copying: Option<u64>,
    /// Writes to that region.
    pub(crate) waiting: dm::BioList<Mirror>,
    pub(crate) is_running: bool,
}

impl MirrorSet {
    /// Returns a leg for a read, except for those whose bit in `failed` is set.
    pub(crate) fn leg_for_read(&self, sector: u64, failed: u32) -> Option<usize> {
        let state = self.state.lock();
        let (primary, is_synced) = (state.primary, self.line.region(sector) < state.synced);
        drop(state);

        [primary, 1 - primary]
            .into_iter()
            .filter(|leg| (*leg == primary || is_synced) && failed & (1 << leg) == 0)
            // The primary leg, unless only the other one has no errors.
            .min_by_key(|leg| self.line.legs[*leg].has_errors())
    }

    /// Begins a write: sets its legs. A write to the region that is being copied waits.
    pub(crate) fn begin_write(&self, mut bio: dm::Bio<Mirror>) -> Option<dm::Bio<Mirror>> {
        let section = self.writes.clone().into_down_read();
        let regions = self.line.regions(bios::sector(&bio), bio.len_bytes());
        let mut state = self.state.lock();

        if state.copying.is_some_and(|it| regions.contains(&it)) {
            state.waiting.push(bio);
            return None;
        }
        let is_synced = *regions.start() < state.synced;
        let legs = if is_synced { 0b11 } else { 1 << state.primary };
        drop(state);
        let data = bio.data();
        data.legs = legs;
        data.section = Some(section);
        Some(bio)
    }

    /// Handles a write that some legs have failed. Returns its result.
    pub(crate) fn fail_write(&self, sector: u64, legs: u32, failed: u32) -> BlkResult {
        let written = legs & !failed;
        let mut state = self.state.lock();

        let failed_legs = (0..2).filter(|leg| failed & (1 << leg) != 0);
        failed_legs.for_each(|leg| self.fail(leg, Failure::Write));
        let is_synced = state.synced == self.line.n_regions;
        state.synced = state.synced.min(self.line.region(sector));
        if written & (1 << state.primary) != 0 {
            return Ok(());
        }
        if written == 0 || !is_synced {
            return Err(BlkError::IOERR);
        }
        // The other leg had all data before this write.
        state.primary = 1 - state.primary;
        Ok(())
    }

    /// Returns the next region to copy. Writes to it wait from now on.
    fn begin_copy(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if !state.is_running || state.synced == self.line.n_regions {
            return None;
        }
        state.copying = Some(state.synced);
        state.copying
    }

    /// Copies a region after its writes have ended. Returns whether both legs have its data.
    fn copy(&self, region: u64) -> bool {
        self.writes.synchronize();
        let primary = self.state.lock().primary;
        let source = self.line.area(primary, region);
        let to = self.line.area(1 - primary, region);

        match self.kcopyd.copy(source, &[to]) {
            Ok(()) => return true,
            Err(dm::CopyError::Read) => self.fail(primary, Failure::Sync),
            Err(dm::CopyError::Write(_)) => self.fail(1 - primary, Failure::Sync),
            // The table is read-only.
            Err(dm::CopyError::Refused(_)) => {}
        }
        false
    }

    /// Ends a copy, and sends the writes that have waited. Returns whether to go on.
    fn end_copy(&self, region: u64, is_copied: bool) -> bool {
        let mut state = self.state.lock();
        // A leg may have failed meanwhile.
        let is_synced = is_copied && state.synced == region;
        if is_synced {
            state.synced = region.saturating_add(1);
        }
        if state.synced == self.line.n_regions {
            self.forget_failures();
            self.event.trigger();
        }
        state.copying = None;
        let mut waiting = mem::take(&mut state.waiting);
        drop(state);

        while let Some(bio) = waiting.pop() {
            bio.queue(|mirror| &mirror.get_ref().queue, bios::write);
        }
        is_synced
    }
}

impl_has_work! {
    impl HasWork<Self> for MirrorSet { self.work }
}

impl WorkItem for MirrorSet {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _copier = this.copier.lock();
        while let Some(region) = this.begin_copy() {
            let is_copied = this.copy(region);
            if !this.end_copy(region, is_copied) {
                break;
            }
        }
    }
}
