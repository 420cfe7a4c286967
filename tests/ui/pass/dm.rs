// SPDX-License-Identifier: GPL-2.0

//! A target that does with its bios all that it may, each handle used up once.

use kernel::{
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
    time::Delta, //
};

use core::num::{
    NonZero,
    NonZeroU32, //
};

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult, //
        },
        dm, //
    },
    mm::mempool::{
        Mempool,
        Pages, //
    },
    percpu::counter::PerCpuCounter,
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Everything {
    device: dm::DeviceIndex,
    event: dm::TableEvent,
    delayed: dm::DelayedWork,
    queue: Workqueue,
    #[pin]
    kept: SpinLockIrq<dm::BioList<Everything>>,
    #[pin]
    set: BioSet,
    #[pin]
    pool: Mempool<Pages<0>>,
    #[pin]
    mapped: PerCpuCounter,
}

#[derive(Default)]
#[repr(align(8))]
struct PerBio {
    submits: u64,
}

#[vtable]
impl dm::Target for Everything {
    const NAME: &'static CStr = c"everything";
    const VERSION: [u32; 3] = [1, 0, 0];
    const NOWAIT: bool = true;
    type ModuleData = ();
    type PerBio = PerBio;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let key = args.secret(c"missing key")?;
        let digits = key.as_bytes().len();
        let path = args.required(c"missing device path")?;
        args.finish(c"too many arguments")?;
        let device = builder.get_device(path, digits as u64)?;
        builder.get_device_area(path, 0, 8)?;
        builder.set_max_io_len(NonZeroU32::MIN);
        builder.set_num_flush_bios(2);
        builder.set_num_discard_bios(2);
        builder.set_num_secure_erase_bios(1);
        builder.set_num_write_zeroes_bios(1);
        builder.set_discards_supported();
        builder.set_flush_bypasses_map();
        let event = builder.event()?;
        let queue = Workqueue::new(c"everything", Flags::UNBOUND, 0)?;
        let ordered = Arc::new(Workqueue::ordered(c"ordered")?, GFP_KERNEL)?;
        let delayed = builder.delayed_work(ordered)?;
        let reserve_bios = NonZero::new(1).ok_or(EINVAL)?;

        Ok(try_pin_init!(Self {
            device,
            event,
            delayed,
            queue,
            kept <- new_spinlock_irq!(dm::BioList::new()),
            set <- BioSet::new(reserve_bios),
            pool <- Mempool::new(256, Pages),
            mapped <- PerCpuCounter::new(0),
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        self.mapped.add(1);
        bio.data().submits = 1;
        match bio.sector() {
            0 => bio.kill(),
            1 => bio.requeue(),
            2 => bio.end(Ok(())),
            _ if bio.target_bio_nr() > 0 => bio.remap_range(self.device, 0, NonZeroU32::MIN),
            _ if bio.is_nowait() && !bio.is_readahead() => bio.end(Err(BlkError::AGAIN)),
            4 if bio.opf() != 0 => {
                self.delayed.queue(Delta::from_millis(1));
                bio.defer(|bio| self.kept.lock().push(bio))
            }
            3 => bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, work)),
            sector => bio.remap(self.device, sector),
        }
    }

    fn delayed_work(self: Pin<&Self>) {
        let mut kept = self.kept.lock();
        if let Some(data) = kept.first_data() {
            data.submits += 1;
        }
        let bio = kept.pop();
        drop(kept);
        if let Some(bio) = bio {
            bio.submit(self.device, 0);
        }
    }

    fn io_hints(self: Pin<&Self>, limits: &mut dm::Limits<'_>) {
        limits.set_chunk_sectors(NonZeroU32::MIN);
        limits.set_io_min(512);
        limits.set_io_opt(512);
        limits.set_max_hw_discard_sectors(limits.max_hw_discard_sectors());
        limits.set_discard_granularity(NonZeroU32::MIN);
    }

    fn end_io<'a>(mut bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        bio.data().submits += 1;
        match bio.result() {
            Ok(()) => bio.done(),
            Err(_) => bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, work)),
        }
    }
}

/// Walks the memory of a bio, makes a clone of it, and sends that on.
fn work(mut bio: dm::Bio<Everything>) {
    let mut bytes = 0;
    let mut segments = bio.segments();
    while let Some(segment) = segments.next_segment(NonZeroU32::MAX) {
        bytes += segment.len();
    }
    let (target, mut segments) = bio.segments_mut();
    target.mapped.add(i64::from(bytes));
    if let Some(segment) = segments.next_segment(NonZeroU32::MAX) {
        segment.as_segment().len();
    }

    let device = bio.target().device;
    let clone = bio.bounce(|target| (&target.get_ref().set, &target.get_ref().pool));
    match clone {
        Ok(mut clone) => {
            let (_, mut from, mut to) = clone.segments();
            if from.next_segment(NonZeroU32::MAX).is_some() {
                to.next_segment(NonZeroU32::MAX);
            }
            clone.submit(device, 0, done);
        }
        Err(bio) => match bio.share(|target| &target.get_ref().set) {
            Ok(clone) => clone.into_base().submit(device, 0),
            Err(bio) => bio.end(Ok(())),
        },
    }
}

/// Gets a bio back from its clone.
fn done(mut bio: dm::IrqBio<Everything>, result: BlkResult) {
    bio.data().submits += bio.sector() - bio.target_sector();
    bio.target().get_ref().event.clone().trigger();
    bio.end(result);
}

/// Generates the code for it all.
pub fn register() -> Result<dm::Registration<impl dm::Target>> {
    dm::Registration::<Everything>::new(())
}
