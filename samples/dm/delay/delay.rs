// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rdelay` target.
//!
//! Delays reads, writes and flushes, as `delay` does. It takes the same table lines, and prints the
//! same status and errors.
//!
//! Table line: `<start> <len> rdelay <dev path> <start sector> <delay in ms>`, and the same three
//! words for writes, and for flushes. Flushes are delayed as writes are without words of their own,
//! and writes as reads are.
//!
//! Not supported, unlike in C: a thread that polls if all delays are short. A bio waits at least a
//! tick of the timer. Integrity metadata of the layer above.
//!
//! C: `drivers/md/dm-delay.c`.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*,
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    }, //
};

use kscale::{
    block::{
        bio::Op,
        dm, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

mod class;

use class::{
    Class,
    Words, //
};

module! {
    type: DelayModule,
    name: "dm_rdelay",
    authors: ["The kscale authors"],
    description: "Device-mapper delay sample",
    license: "GPL",
}

struct DelayModule {
    _registration: dm::Registration<Delay>,
}

impl kernel::Module for DelayModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance, built from one table line.
#[pin_data]
struct Delay {
    n_words: usize,
    work: dm::DelayedWork,
    #[pin]
    reads: Class,
    #[pin]
    writes: Class,
    #[pin]
    flushes: Class,
}

/// The arrival of a delayed bio.
#[derive(Default)]
struct Arrival(Option<Instant<Monotonic>>);

impl Delay {
    /// Returns the classes in the order of the table line.
    fn classes(&self) -> [&Class; 3] {
        [&self.reads, &self.writes, &self.flushes]
    }
}

#[vtable]
impl dm::Target for Delay {
    const NAME: &'static CStr = c"rdelay";
    const VERSION: [u32; 3] = [1, 5, 0];

    type ModuleData = ();
    type PerBio = Arrival;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let n_words = args.len();
        if !matches!(n_words, 3 | 6 | 9) {
            return Err(dm::CtrError::invalid(
                c"Requires exactly 3, 6 or 9 arguments",
            ));
        }
        let mut words = [Words::parse(builder, &mut args)?; 3];
        for first in 1..n_words / 3 {
            let parsed = Words::parse(builder, &mut args)?;
            words.iter_mut().skip(first).for_each(|it| *it = parsed);
        }
        let [reads, writes, flushes] = words;
        let queue = Workqueue::new(c"kdelayd", Flags::PERCPU, 0)?;
        let work = builder.delayed_work(Arc::new(queue, GFP_KERNEL)?)?;
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);

        Ok(try_pin_init!(Self {
            n_words,
            work,
            reads <- Class::new(reads),
            writes <- Class::new(writes),
            flushes <- Class::new(flushes),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let this = self.get_ref();
        let class = match bio.op() {
            Op::Read => &this.reads,
            _ if bio.is_flush() => &this.flushes,
            _ => &this.writes,
        };
        class.map(&this.work, bio)
    }

    fn delayed_work(self: Pin<&Self>) {
        let delays = self.classes().into_iter().filter_map(|it| it.submit(false));
        delays.for_each(|delay| self.work.queue(delay));
    }

    fn presuspend(self: Pin<&Self>) {
        for class in self.classes() {
            class.set_may_delay(false);
            class.submit(true);
        }
    }

    fn resume(self: Pin<&Self>) {
        for class in self.classes() {
            class.set_may_delay(true);
        }
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.reads.words.device
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let [reads, writes, flushes] = self.classes().map(|it| it.count());
        write!(out, "{reads} {writes} {flushes}")
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.reads.words.write(out)?;
        for class in self.classes().into_iter().take(self.n_words / 3).skip(1) {
            write!(out, " ")?;
            class.words.write(out)?;
        }
        Ok(())
    }
}
