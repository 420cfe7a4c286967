// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rmirror` target.
//!
//! Keeps two devices equal (RAID 1), as `mirror` does with a log in memory. Writes are sent to both
//! legs, and reads to the primary leg, which is the first one until it fails. The second leg is
//! copied region by region from the primary leg, unless the line has `nosync`. Writes to the region
//! that is being copied wait. If a leg fails, the target continues on the other one. The next
//! resume starts another copy.
//!
//! Table line: `<start> <len> rmirror core <#log args> <region sectors> [[no]sync]
//! 2 <dev path> <start sector> <dev path> <start sector> [<#features> handle_errors [keep_log]]`
//!
//! Unlike in C: there are two legs, and no log on a device. A write to a failed leg does not wait
//! for a suspend, as with `keep_log` in C. `handle_errors` only triggers events.
//!
//! C: `drivers/md/dm-raid1.c`.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc, //
    }, //
};

use core::num::NonZeroU16;

use kscale::{
    block::{
        bio::{
            BioSet,
            Op, //
        },
        dm, //
    },
    sync::{
        srcu::new_domain,
        workqueue::{
            Flags,
            Workqueue, //
        }, //
    }, //
};

mod bios;
mod line;
mod set;
mod status;

use bios::BioState;
use line::Line;
use set::{
    MirrorSet,
    State, //
};

module! {
    type: MirrorModule,
    name: "dm_rmirror",
    authors: ["The kscale authors"],
    description: "Device-mapper mirror sample",
    license: "GPL",
}

struct MirrorModule {
    _registration: dm::Registration<Mirror>,
}

impl kernel::Module for MirrorModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance, built from one table line.
#[pin_data]
struct Mirror {
    /// Sends writes.
    queue: Workqueue,
    /// Copies regions.
    resync_queue: Workqueue,
    set: Arc<MirrorSet>,
    #[pin]
    bios: BioSet,
}

#[vtable]
impl dm::Target for Mirror {
    const NAME: &'static CStr = c"rmirror";
    const VERSION: [u32; 3] = [1, 15, 0];
    const ATOMIC_WRITES: bool = true;

    type ModuleData = ();
    type PerBio = BioState;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let line = Line::parse(builder, &mut args)?;
        let (event, kcopyd) = (builder.event()?, builder.kcopyd_client()?);
        let synced = match line.sync {
            Some(false) => line.n_regions,
            _ => 0,
        };
        builder.set_max_io_len(line.region_sectors);
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);
        let set = Arc::pin_init(
            try_pin_init!(MirrorSet {
                line,
                event,
                kcopyd,
                writes: new_domain!()?,
                state <- new_spinlock_irq!(State {
                    synced,
                    ..State::default()
                }),
                copier <- new_mutex!(()),
                work <- new_work!(),
            }? Error),
            GFP_KERNEL,
        )?;
        Ok(try_pin_init!(Self {
            queue: Workqueue::new(c"rmirror", Flags::PERCPU, 0)?,
            resync_queue: Workqueue::new(c"rmirror_resync", Flags::UNBOUND, 0)?,
            set,
            bios <- BioSet::new(const { NonZeroU16::new(64).unwrap() }),
        }? Error))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        if bio.op() != Op::Read {
            return bio.defer(|bio| bio.queue(|mirror| &mirror.get_ref().queue, bios::write));
        }
        let sector = bio.target_sector();
        let Some(leg) = self.set.leg_for_read(sector, 0) else {
            return bio.kill();
        };
        if !bio.is_readahead() {
            bio.data().leg = Some(leg);
        }
        let (device, sector) = self.set.line.locate(leg, sector);
        bio.remap(device, sector)
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        bios::end_read(bio)
    }

    fn presuspend(self: Pin<&Self>) {
        self.set.state.lock().is_running = false;
        // Wait for the region that is being copied.
        drop(self.set.copier.lock());
    }

    fn presuspend_undo(self: Pin<&Self>) {
        self.resume();
    }

    fn resume(self: Pin<&Self>) {
        self.set.state.lock().is_running = true;
        // An item that is queued already has not started.
        let _ = self.resync_queue.enqueue(self.set.clone());
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.set.write_info(out)
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.set.write_table(out)
    }

    fn status_ima(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.set.write_ima(out)
    }
}
