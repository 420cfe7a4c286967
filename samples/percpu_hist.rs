// SPDX-License-Identifier: GPL-2.0

//! Per-CPU data sample: the `percpu_hist` target, a histogram of bio latencies.
//!
//! The target sends every bio unchanged to a device, for example one of `dm_offset`, and counts it
//! on the CPU of its completion. Bucket `n` counts latencies of 2^n to 2^(n+1)-1 nanoseconds.
//!
//! Table line: `<start> <len> percpu_hist <dev path>`
//!
//! `docs/percpu_hist.md` has a tour.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};

use kscale::{
    block::dm,
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    percpu::PerCpuInts, //
};

module! {
    type: HistModule,
    name: "percpu_hist",
    authors: ["The kscale authors"],
    description: "Per-CPU histogram of the latency of bios",
    license: "GPL",
}

struct HistModule {
    _registration: dm::Registration<Hist>,
}

impl kernel::Module for HistModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(Atomic::new(0))?,
        })
    }
}

/// One bucket per bit of a latency in nanoseconds.
const BUCKETS: usize = u64::BITS as usize;

/// Number of bios by the binary logarithm of their latency.
struct Latencies(PerCpuInts<u64, BUCKETS>);

impl Latencies {
    /// Counts a bio.
    ///
    /// Context: Any context. Never sleeps.
    fn count(&self, latency: Delta) {
        // CAST: The clock is monotonic; 0 and 1 share a bucket.
        let bucket = (latency.as_nanos() as u64 | 1).ilog2();
        // CAST: From 32 to 64 bits.
        if let Some(bios) = self.0.get(bucket as usize) {
            bios.inc();
        }
    }

    /// Returns the number of bios.
    fn total(&self) -> u64 {
        self.0.iter().map(|bios| bios.sum()).sum()
    }

    /// Writes the contents of the debugfs file `latency_ns`. Exact if no bio completes
    /// concurrently.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>20} {:>10}  by CPU", "from", "bios")?;
        for (bucket, bios) in self.0.iter().enumerate() {
            let sum = bios.sum();
            if sum == 0 {
                continue;
            }
            write!(f, "{:>20} {sum:>10} ", 1_u64 << bucket)?;
            for (cpu, of_cpu) in bios.iter().filter(|(_, of_cpu)| *of_cpu != 0) {
                write!(f, " {}:{of_cpu}", cpu.as_u32())?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{:>20} {:>10}", "all", self.total())
    }
}

#[vtable]
impl Files for Latencies {
    const FILES: &'static [File<Self>] = &[File::read_only(c"latency_ns", Self::show)];
}

/// A target instance, built from one table line.
struct Hist {
    device: dm::DeviceIndex,
    number: u32,
    latencies: Arc<Latencies>,
    /// On drop, the file waits for its readers.
    _files: Dir<Latencies>,
}

#[vtable]
impl dm::Target for Hist {
    const NAME: &'static CStr = c"percpu_hist";
    const VERSION: [u32; 3] = [1, 0, 0];

    /// Number of the next target, which makes the names of debugfs directories unique.
    type ModuleData = Atomic<u32>;

    /// Submission time of the bio.
    type PerBio = Option<Instant<Monotonic>>;

    fn ctr(
        next_number: &Atomic<u32>,
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        args.finish(c"too many arguments")?;

        let device = builder
            .get_device(path, 0)
            .map_err(|error| dm::CtrError::new(c"Device lookup failed", error))?;
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);
        let number = next_number.fetch_add(1, Relaxed);
        let name = CString::try_from_fmt(fmt!("percpu_hist-{number}"))?;
        let latencies = Arc::new(Latencies(PerCpuInts::new()?), GFP_KERNEL)?;
        let files = Dir::new(&name, latencies.clone())?;

        Ok(Ok::<Self, Error>(Self {
            device,
            number,
            latencies,
            _files: files,
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        *bio.data() = Some(Instant::now());
        let sector = bio.target_sector();
        bio.remap(self.device, sector)
    }

    fn end_io<'a>(mut bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        if let Some(start) = *bio.data() {
            bio.target().latencies.count(start.elapsed());
        }
        bio.done()
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let bios = self.latencies.total();
        write!(out, "bios={bios} debugfs=percpu_hist-{}", self.number)
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "{}", out.device_name(self.device).unwrap_or_default())
    }
}
