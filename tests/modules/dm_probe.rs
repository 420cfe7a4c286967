// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `probe`: handles each bio as the table line requests, for tests.
//!
//! Table line: `<start> <len> probe <dev path> <what>`, where `what` is one of the names below.
//! Status: the number of bios with per-bio data, the numbers of calls of `map` and `end_io`, and
//! the suspend and resume hooks in the order of their calls.
//!
//! The target `probe_integrity` attaches a payload of 1 MiB to each bio, and ends the bio.
//!
//! The target `probe_chain`, `<start> <len> probe_chain <n>`, accepts reads one sector at a time.
//! It keeps each bio in the per-bio data of the next one, and drops the `n`th. It is audited.
//!
//! The target `probe_line`, `<start> <len> probe_line <dev path> [<request> <number>]...`, remaps
//! each bio, and makes the requests of [`ProbeLine::ctr()`]. Status: the numbers of flushes,
//! discards and other bios by [`dm::MapBio::target_bio_nr()`], and the length of the longest of the
//! others.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    new_mutex,
    num::casts::IntoSafeCast,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock_irq,
        Arc,
        Mutex,
        SpinLockIrq, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use core::{
    mem,
    num::{
        NonZeroU16,
        NonZeroU32, //
    }, //
};

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError,
            IntegrityPayload,
            Op,
            SECTOR_SIZE, //
        },
        dm, //
    },
    mm::mempool::{
        Mempool,
        Pages, //
    },
    module::param::writable_param,
    sync::workqueue::{
        Flags,
        Workqueue, //
    },
    testing::task::in_noio_scope, //
};

module! {
    type: ProbeModule,
    name: "dm_probe",
    authors: ["The kscale authors"],
    description: "Device-mapper target for tests of the library",
    license: "GPL",
}

writable_param! {
    /// While it is not 0, [`ProbeLine::ctr()`] waits in the request `wait`.
    static CTR_WAITS: Param = (
        "ctr_waits",
        0,
        "Whether the request wait of a table line waits",
    );
}

struct ProbeModule {
    _probe: dm::Registration<Probe>,
    _probe_integrity: dm::Registration<ProbeIntegrity>,
    _probe_chain: dm::Registration<ProbeChain>,
    _probe_line: dm::Registration<ProbeLine>,
}

impl kernel::Module for ProbeModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _probe: dm::Registration::new(())?,
            _probe_integrity: dm::Registration::new(())?,
            _probe_chain: dm::Registration::new(())?,
            _probe_line: dm::Registration::new(Arc::pin_init(
                new_mutex!(KVec::new()),
                GFP_KERNEL,
            )?)?,
        })
    }
}

/// The action for a bio.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Remap it to the device.
    Remap,
    /// Remap it with tags.
    RemapTagged,
    /// Remap it one sector at a time.
    Partial,
    /// As [`What::Partial`], but remap bios that must not be split.
    Divide,
    /// Remap the first half of a range.
    Range,
    /// As [`What::Range`], but more than the whole.
    RangeTooLong,
    /// Write zeros to its memory, as far as it is writable, and remap it.
    Scribble,
    /// Submit it later, from a worker.
    Submit,
    /// Submit it a second time after its completion.
    Resubmit,
    /// Keep a bio of sector 0, and submit it from `end_io` of another bio, possibly in an
    /// interrupt.
    SubmitAnother,
    /// Collect single sectors in a list. Once a page is complete, submit reads and drop others.
    Collect,
    /// Submit a clone that shares its memory.
    Share,
    /// As [`What::Share`], with tags.
    ShareTagged,
    /// Submit a clone with bounce pages and a copy of the data.
    Bounce,
    /// As [`What::Bounce`], but the first sector is not filled.
    BounceUnfilled,
    /// As [`What::Bounce`], but the last sector is not filled.
    BounceShort,
    /// As [`What::Bounce`], but the clone's own memory is copied from itself.
    BounceStale,
    /// Read with a clone, and copy what it has read.
    Read,
    /// As [`What::Read`], but wait for the clone in `map`.
    ReadAtOnce,
    /// Report success, even if the device reports an error.
    Forgive,
    /// Requeue it.
    Requeue,
    /// Requeue it during a suspend, which waits for one.
    RequeueInSuspend,
    /// End it with an error, by the result of `map`.
    Kill,
    /// End it with an error that the target chooses.
    Refuse,
    /// Take ownership of it, and drop it.
    Drop,
    /// As [`What::Remap`], but fail the resume.
    Stay,
}

const NAMES: [(&str, What); 26] = [
    ("remap", What::Remap),
    ("remap_tagged", What::RemapTagged),
    ("partial", What::Partial),
    ("divide", What::Divide),
    ("range", What::Range),
    ("range_too_long", What::RangeTooLong),
    ("scribble", What::Scribble),
    ("submit", What::Submit),
    ("resubmit", What::Resubmit),
    ("submit_another", What::SubmitAnother),
    ("collect", What::Collect),
    ("share", What::Share),
    ("share_tagged", What::ShareTagged),
    ("bounce", What::Bounce),
    ("bounce_unfilled", What::BounceUnfilled),
    ("bounce_short", What::BounceShort),
    ("bounce_stale", What::BounceStale),
    ("read", What::Read),
    ("read_at_once", What::ReadAtOnce),
    ("forgive", What::Forgive),
    ("requeue", What::Requeue),
    ("requeue_in_suspend", What::RequeueInSuspend),
    ("kill", What::Kill),
    ("refuse", What::Refuse),
    ("drop", What::Drop),
    ("stay", What::Stay),
];

/// The number of bytes of the tags.
const TAGS_LEN: u32 = 8;

static ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// The number of existing [`PerBio`] values.
static LIVE: Atomic<i64> = Atomic::new(0);

/// Per-bio data that counts itself in [`LIVE`].
struct PerBio {
    /// The first sector in the line, and on the mapped device.
    sector: u64,
    mapped_sector: u64,
    was_sent_again: bool,
}

impl Default for PerBio {
    fn default() -> Self {
        LIVE.add(1, Relaxed);
        Self {
            sector: 0,
            mapped_sector: 0,
            was_sent_again: false,
        }
    }
}

impl Drop for PerBio {
    fn drop(&mut self) {
        LIVE.add(-1, Relaxed);
    }
}

#[pin_data]
struct Probe {
    device: dm::DeviceIndex,
    what: What,
    mapped: Atomic<i64>,
    ended: Atomic<i64>,
    is_suspending: Atomic<bool>,
    queue: Workqueue,
    #[pin]
    bios: BioSet,
    #[pin]
    pages: Mempool<Pages>,
    #[pin]
    kept: SpinLockIrq<dm::BioList<Probe>>,
    #[pin]
    hooks: Mutex<KVec<&'static str>>,
}

impl Probe {
    fn called(&self, hook: &'static str) {
        // If this fails, the list is too short and the test fails.
        let _ = self.hooks.lock().push(hook, GFP_KERNEL);
    }

    /// Adds a bio to the list. Submits or drops the list with the last sector of a page.
    fn collect(&self, mut bio: dm::Bio<Self>) {
        let (is_last, is_read) = (bio.data().sector % 8 == 7, bio.op() == Op::Read);
        let mut kept = self.kept.lock();

        kept.push(bio);
        if !is_last {
            return;
        }
        let mut list = mem::take(&mut *kept);
        drop(kept);
        if !is_read {
            return;
        }
        let mut next = 0;
        while let Some(mut bio) = list.pop() {
            let sector = bio.data().sector % 8;
            if sector == next {
                bio.queue(queue, submit);
            }
            next = sector + 1;
        }
    }
}

#[vtable]
impl dm::Target for Probe {
    const NAME: &'static CStr = c"probe";
    const VERSION: [u32; 3] = [1, 0, 0];
    const INTEGRITY_PAYLOADS: bool = true;
    const ATOMIC_WRITES: bool = true;

    type ModuleData = ();
    type PerBio = PerBio;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let what = args.one_of(&NAMES, c"unknown name")?;
        args.finish(c"too many arguments")?;

        let device = builder.get_device(path, 0)?;
        let queue = Workqueue::new(c"dm_probe", Flags::UNBOUND, 4)?;
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);

        Ok(try_pin_init!(Self {
            device,
            what,
            mapped: Atomic::new(0),
            ended: Atomic::new(0),
            is_suspending: Atomic::new(false),
            queue,
            bios <- BioSet::new(NonZeroU16::MIN),
            pages <- Mempool::new(4, Pages::<0>),
            kept <- new_spinlock_irq!(dm::BioList::new()),
            hooks <- new_mutex!(KVec::new()),
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let sector = bio.target_sector();
        self.mapped.add(1, Relaxed);
        bio.data().sector = sector;
        bio.data().mapped_sector = bio.sector();

        // Reclaim may wait for this device.
        if !in_noio_scope() {
            return bio.kill();
        }
        if bio.is_flush() && self.what != What::Divide {
            return bio.remap(self.device, 0);
        }
        match self.what {
            What::SubmitAnother if sector == 0 => bio.defer(|bio| self.kept.lock().push(bio)),
            What::Remap | What::Forgive | What::Stay | What::Resubmit | What::SubmitAnother => {
                bio.remap(self.device, sector)
            }
            What::RemapTagged => {
                if let Some(tags) = IntegrityPayload::new(TAGS_LEN) {
                    bio.set_integrity(tags);
                }
                bio.remap(self.device, sector)
            }
            What::Collect => match bio.accept_partial(NonZeroU32::MIN) {
                Ok(()) => bio.defer(|bio| self.collect(bio)),
                Err(_) => bio.kill(),
            },
            What::Partial => match bio.accept_partial(NonZeroU32::MIN) {
                Ok(()) => bio.remap(self.device, sector),
                Err(_) => bio.kill(),
            },
            What::Divide => {
                // No bio is that long.
                let is_wrong = bio.accept_partial(NonZeroU32::MAX).is_ok();
                // A discard has a length, but no memory.
                let has_data = matches!(bio.op(), Op::Read | Op::Write) && !bio.is_flush();
                if is_wrong || has_data != (bio.segments().remaining_bytes() > 0) {
                    return bio.kill();
                }
                // Fails, and changes nothing, if the bio must not be split.
                let _ = bio.accept_partial(NonZeroU32::MIN);
                let to = if bio.is_flush() { 0 } else { sector };
                bio.remap(self.device, to)
            }
            What::Range | What::RangeTooLong => {
                let sectors = bio.len_bytes() / SECTOR_SIZE;
                let part = match self.what {
                    What::Range => sectors / 2,
                    _ => sectors + 1,
                };
                let part = NonZeroU32::new(part).unwrap_or(NonZeroU32::MIN);
                bio.remap_range(self.device, sector, part)
            }
            What::Scribble => {
                let (_, mut memory) = bio.segments_mut();
                while let Some(mut segment) = memory.next_segment(NonZeroU32::MAX) {
                    let len = segment.len().into_safe_cast();
                    // A segment is within a page.
                    let _ = segment.write_at(0, ZEROS.get(..len).unwrap_or_default());
                }
                bio.remap(self.device, sector)
            }
            What::Submit => bio.defer(|bio| bio.queue(queue, submit)),
            What::Share | What::ShareTagged => bio.defer(|bio| bio.queue(queue, share)),
            What::Bounce | What::BounceUnfilled | What::BounceShort | What::BounceStale => {
                bio.defer(|bio| bio.queue(queue, bounce))
            }
            What::Read if bio.op() == Op::Read => bio.defer(|bio| bio.queue(queue, read)),
            What::Read => bio.remap(self.device, sector),
            What::ReadAtOnce => bio.defer(read),
            What::Requeue => bio.requeue(),
            What::RequeueInSuspend if self.is_suspending.load(Relaxed) => bio.requeue(),
            What::RequeueInSuspend => bio.remap(self.device, sector),
            What::Kill => bio.kill(),
            What::Refuse => bio.end(Err(BlkError::NOTSUPP)),
            What::Drop => bio.defer(drop),
        }
    }

    fn end_io<'a>(mut bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        let what = bio.target().what;
        bio.target().ended.add(1, Relaxed);
        let is_second = core::mem::replace(&mut bio.data().was_sent_again, true);

        match what {
            What::Resubmit if !is_second => bio.defer(|bio| bio.queue(queue, submit)),
            What::SubmitAnother => {
                let another = bio.target().get_ref().kept.lock().pop();
                if let Some(another) = another {
                    submit(another);
                }
                bio.done()
            }
            What::Forgive => bio.done_with(Ok(())),
            _ => bio.done(),
        }
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let live = LIVE.load(Relaxed);
        let (mapped, ended) = (self.mapped.load(Relaxed), self.ended.load(Relaxed));
        write!(out, "live={live} mapped={mapped} ended={ended} hooks=")?;
        for hook in self.hooks.lock().iter() {
            write!(out, "{hook},")?;
        }
        Ok(())
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        let name = NAMES.iter().find(|(_, what)| *what == self.what);
        write!(out, "{device} {}", name.map_or("", |(name, _)| *name))
    }

    fn message(self: Pin<&Self>, mut args: dm::Args<'_>, out: &mut dm::StatusBuf<'_>) -> Result {
        match args.next().map(CStr::to_bytes) {
            _ if !in_noio_scope() => Err(EDEADLK),
            // Writes to the buffer in which C also returns the text, while the words are borrowed.
            Some(b"echo") => {
                for word in args {
                    let word = word.to_str()?;
                    write!(out, "<{word}>")?;
                }
                Ok(())
            }
            Some(b"nothing") => Ok(()),
            _ => Err(EINVAL),
        }
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn presuspend(self: Pin<&Self>) {
        let mapped = self.mapped.load(Relaxed);
        // The hook is called a second time on removal.
        let is_first = !self.is_suspending.load(Relaxed);
        self.is_suspending.store(true, Relaxed);
        self.called("presuspend");
        if self.what == What::RequeueInSuspend && is_first {
            while self.mapped.load(Relaxed) == mapped {
                fsleep(Delta::from_millis(10));
            }
        }
    }

    fn presuspend_undo(self: Pin<&Self>) {
        self.is_suspending.store(false, Relaxed);
        self.called("presuspend_undo");
    }

    fn postsuspend(self: Pin<&Self>) {
        self.called("postsuspend");
    }

    fn preresume(self: Pin<&Self>) -> Result {
        self.called("preresume");
        match self.what {
            What::Stay => Err(EAGAIN),
            _ => Ok(()),
        }
    }

    fn resume(self: Pin<&Self>) {
        self.called("resume");
    }
}

fn queue(target: Pin<&Probe>) -> &Workqueue {
    &target.get_ref().queue
}

/// Submits a bio.
fn submit(mut bio: dm::Bio<Probe>) {
    let (sector, mapped_sector) = (bio.data().sector, bio.data().mapped_sector);
    if (bio.target_sector(), bio.sector()) != (sector, mapped_sector) {
        return bio.end(Err(BlkError::INVAL));
    }
    let device = bio.target().device;
    bio.submit(device, sector);
}

/// Submits a clone of a bio.
fn share(mut bio: dm::Bio<Probe>) {
    let sector = bio.data().sector;
    let (device, what) = (bio.target().device, bio.target().what);
    if !in_noio_scope() {
        return bio.end(Err(BlkError::INVAL));
    }
    match bio.share(|target| &target.get_ref().bios) {
        Ok(mut clone) => {
            if what == What::ShareTagged {
                if let Some(tags) = IntegrityPayload::new(TAGS_LEN) {
                    clone.set_integrity(tags);
                }
            }
            clone.submit(device, sector, dm::IrqBio::end);
        }
        Err(bio) => bio.end(Err(BlkError::RESOURCE)),
    }
}

/// Submits a clone with bounce pages. Not for reads.
fn bounce(mut bio: dm::Bio<Probe>) {
    let sector = bio.data().sector;
    let (device, what) = (bio.target().device, bio.target().what);
    if bio.op() != Op::Write {
        return bio.submit(device, sector);
    }
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    match bounced {
        Ok(mut clone) => {
            let (_, mut data, mut own) = clone.segments();
            let one = NonZeroU32::new(SECTOR_SIZE).unwrap_or(NonZeroU32::MIN);
            if what == What::BounceUnfilled {
                data.next_segment(one);
                own.next_segment(one);
            }
            // If these fail, the clone is not submitted.
            if what == What::BounceStale {
                while let Some(mut back) = own.next_segment(NonZeroU32::MAX) {
                    let half = back.len() / 2;
                    if let Some(mut front) = back.split_to(half) {
                        let _ = front.copy_from(back.as_segment());
                        let _ = back.copy_from(front.as_segment());
                    }
                }
            } else if what == What::BounceShort {
                while own.remaining_bytes() > SECTOR_SIZE {
                    let (Some(from), Some(mut to)) =
                        (data.next_segment(one), own.next_segment(one))
                    else {
                        break;
                    };
                    let _ = to.copy_from(from);
                }
            } else {
                let _ = own.copy_from(data);
            }
            clone.submit(device, sector, dm::IrqBio::end);
        }
        Err(bio) => bio.end(Err(BlkError::RESOURCE)),
    }
}

/// Waits for a clone that reads.
fn read(mut bio: dm::Bio<Probe>) {
    let sector = bio.data().sector;
    let device = bio.target().device;
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    let (bio, result) = match bounced.map(|clone| clone.read(device, sector)) {
        Ok(Ok(clone)) => clone.copy_to_base(),
        Ok(Err((bio, error))) => (bio, Err(error)),
        Err(bio) => (bio, Err(BlkError::RESOURCE)),
    };
    bio.end(result);
}

/// A target without per-bio data that needs dropping, and without `end_io`.
struct ProbeIntegrity;

#[vtable]
impl dm::Target for ProbeIntegrity {
    const NAME: &'static CStr = c"probe_integrity";
    const VERSION: [u32; 3] = [1, 0, 0];
    const INTEGRITY_PAYLOADS: bool = true;

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(Ok::<_, Error>(Self))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let Some(payload) = IntegrityPayload::new(1 << 20) else {
            return bio.kill();
        };
        bio.set_integrity(payload);
        bio.end(Ok(()))
    }
}

/// The previous bio.
#[derive(Default)]
struct Link(Option<dm::Bio<ProbeChain>>);

/// The last bio of the chain, and the length of the chain.
#[derive(Default)]
struct Chain {
    last: Option<dm::Bio<ProbeChain>>,
    len: u32,
}

#[pin_data]
struct ProbeChain {
    max_len: u32,
    #[pin]
    chain: Mutex<Chain>,
}

#[vtable]
impl dm::Target for ProbeChain {
    const NAME: &'static CStr = c"probe_chain";
    const VERSION: [u32; 3] = [1, 0, 0];
    const AUDITED: bool = true;

    type ModuleData = ();
    type PerBio = Link;

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let max_len = args.parsed(c"bad number")?;

        Ok(try_pin_init!(Self {
            max_len,
            chain <- new_mutex!(Chain::default()),
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        if bio.op() != Op::Read || bio.accept_partial(NonZeroU32::MIN).is_err() {
            return bio.kill();
        }
        bio.defer(|mut bio| {
            let mut chain = self.chain.lock();
            bio.data().0 = chain.last.take();
            chain.last = Some(bio);
            chain.len += 1;
            if chain.len == self.max_len {
                *chain = Chain::default();
            }
        })
    }
}

/// The events of all lines, also of those that are gone.
type Events = Arc<Mutex<KVec<dm::TableEvent>>>;

/// Bios by their number. The last is for all that have a higher one.
type Counts = [Atomic<i64>; 4];

/// A target that makes the requests of its line.
struct ProbeLine {
    device: dm::DeviceIndex,
    /// The device of the last area.
    zones: dm::DeviceIndex,
    event: Option<dm::TableEvent>,
    events: Events,
    max_discard_sectors: Option<u32>,
    flushes: Counts,
    discards: Counts,
    others: Counts,
    longest: Atomic<i64>,
}

#[vtable]
impl dm::Target for ProbeLine {
    const NAME: &'static CStr = c"probe_line";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = Events;
    type PerBio = ();

    fn ctr(
        events: &Events,
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        const INVALID: &CStr = c"invalid number";

        let path = args.required(c"missing device path")?;
        let device = builder.get_device(path, 0)?;
        let (mut event, mut max_discard_sectors, mut zones) = (None, None, device);
        while let Some(request) = args.next() {
            match request.to_bytes() {
                b"max_io_len" => builder.set_max_io_len(args.parsed(INVALID)?),
                b"flush_bios" => builder.set_num_flush_bios(args.parsed(INVALID)?),
                b"discard_bios" => builder.set_num_discard_bios(args.parsed(INVALID)?),
                b"erase_bios" => builder.set_num_secure_erase_bios(args.parsed(INVALID)?),
                b"zeroes_bios" => builder.set_num_write_zeroes_bios(args.parsed(INVALID)?),
                b"discards_supported" => builder.set_discards_supported(),
                b"flush_bypasses_map" => builder.set_flush_bypasses_map(),
                b"also" => {
                    builder.get_device(args.required(c"missing device path")?, 0)?;
                }
                b"max_discard" => max_discard_sectors = Some(args.parsed(INVALID)?),
                b"area" => {
                    let start_sectors = args.parsed(INVALID)?;
                    zones = builder.get_device_area(path, start_sectors, args.parsed(INVALID)?)?;
                }
                b"event" => {
                    let own = builder.event()?;
                    events.lock().push(own.clone(), GFP_KERNEL)?;
                    // The first one is used.
                    event = event.or(Some(own));
                }
                b"wait" => {
                    pr_info!("ctr waits\n");
                    while CTR_WAITS.value() != 0 {
                        fsleep(Delta::from_millis(10));
                    }
                }
                b"fail" => return Err(dm::CtrError::invalid(c"failed as requested")),
                _ => return Err(dm::CtrError::invalid(c"unknown request")),
            }
        }
        let counts = || [const { Atomic::new(0) }; 4];
        Ok(Ok::<_, Error>(Self {
            device,
            zones,
            event,
            events: events.clone(),
            max_discard_sectors,
            flushes: counts(),
            discards: counts(),
            others: counts(),
            longest: Atomic::new(0),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let (counts, sector) = match bio.op() {
            _ if bio.is_flush() && bio.len_bytes() == 0 => (&self.flushes, 0),
            Op::Discard => (&self.discards, bio.target_sector()),
            _ => {
                let len = i64::from(bio.len_bytes());
                // The parts of a bio are mapped by one task.
                self.longest
                    .store(len.max(self.longest.load(Relaxed)), Relaxed);
                (&self.others, bio.target_sector())
            }
        };
        let index = bio.target_bio_nr().min(3).into_safe_cast();
        if let Some(count) = counts.get::<usize>(index) {
            count.add(1, Relaxed);
        }
        bio.remap(self.device, sector)
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        if let Some(event) = &bio.target().event {
            event.trigger();
        }
        bio.done()
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        for (name, counts) in [
            ("flushes", &self.flushes),
            ("discards", &self.discards),
            ("others", &self.others),
        ] {
            write!(out, "{name}=")?;
            for count in counts {
                write!(out, "{},", count.load(Relaxed))?;
            }
            write!(out, " ")?;
        }
        write!(out, "longest={}", self.longest.load(Relaxed))
    }

    fn io_hints(self: Pin<&Self>, limits: &mut dm::Limits<'_>) {
        if let Some(sectors) = self.max_discard_sectors {
            limits.set_max_hw_discard_sectors(sectors);
        }
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.zones
    }

    /// `trigger` triggers the events of all lines, also of those that are gone.
    fn message(self: Pin<&Self>, mut args: dm::Args<'_>, _: &mut dm::StatusBuf<'_>) -> Result {
        match args.next().map(CStr::to_bytes) {
            Some(b"trigger") => {
                self.events.lock().iter().for_each(dm::TableEvent::trigger);
                Ok(())
            }
            _ => Err(EINVAL),
        }
    }
}
