// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `rcrypt`: transparent encryption, compatible with dm-crypt, in safe Rust.
//!
//! Both targets read each other's devices and accept the same table lines:
//!
//! ```sh
//! dmsetup create secret --table "0 $sectors rcrypt aes-xts-plain64 $hex_key 0 /dev/vdb 0"
//! ```
//!
//! With the module parameter `replace=1` the target registers as `crypt`, for tools that support no
//! other name. dm-crypt must not be loaded then.
//!
//! Other module parameters:
//!
//! - `limit_mode`, `page_mode` and `cached_pages` are for benchmarks, see `pages.rs`.
//! - `max_read_size` and `max_write_size` limit the size of bios, see `split.rs`.
//! - `max_inline_write_size` limits the synchronous writes that their submitter encrypts, see
//!   `dispatch.rs`.
//!
//! `/sys/kernel/debug/rcrypt/stats` shows where bios were processed and how pages were allocated.

#![forbid(unsafe_code)]

use kernel::{
    cpu,
    fmt,
    prelude::*,
    str::CString,
    sync::{
        atomic::Atomic,
        Arc, //
    }, //
};

use core::num::{
    NonZeroU16,
    NonZeroU32, //
};

use kscale::{
    block::{
        bio::BioSet,
        dm::{
            self,
            CtrError, //
        }, //
    },
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    mm::mempool::Mempool, //
};

mod cipher_spec;
mod dispatch;
mod format;
mod io;
mod iv;
mod keys;
mod options;
mod pages;
mod split;
mod stats;
mod table;

use cipher_spec::CipherSpec;
use dispatch::Dispatch;
use format::{
    tuple::TuplePool,
    Format, //
};
use keys::Keys;
use options::Options;
use pages::{
    LimitedPages,
    Modes, //
};
use split::Sizes;
use stats::Stats;
use table::{
    Config,
    KeyArg,
    KeyText, //
};

module! {
    type: RcryptModule,
    name: "rcrypt",
    authors: ["The kscale authors"],
    description: "Device-mapper target for transparent encryption",
    license: "GPL",
    alias: ["dm-rcrypt"],
    params: {
        replace: bool {
            default: false,
            description: "Register as `crypt`, in place of dm_crypt",
        },
        limit_mode: u8 {
            default: 2,
            description: "How pages are limited: 0 exact, 1 approx, 2 credit",
        },
        page_mode: u8 {
            default: 4,
            description: "Where pages come from: 0 single, 1 bulk, 2 compound, 3 recycled, 4 mixed",
        },
        cached_pages: u8 {
            default: 32,
            description: "Pages that each target keeps for each CPU with page_mode=3, at most 32",
        },
    },
}

struct RcryptModule {
    _registration: dm::Registration<Crypt>,
    _stats: Dir<Shared>,
}

impl kernel::Module for RcryptModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let shared = Shared::new()?;
        Ok(Self {
            _registration: register(shared.clone())?,
            _stats: Dir::new(c"rcrypt", shared)?,
        })
    }
}

/// The data that all targets share.
pub(crate) struct Shared {
    pub(crate) stats: Stats,
    /// Number of targets, which share the memory for bounce pages.
    pub(crate) targets: Atomic<usize>,
    /// Makes the names of workqueues unique: the two tables of a device have the same device name.
    pub(crate) next_id: Atomic<u32>,
    /// First letter of the workqueue names; in dm-crypt it is `k`, as in `kcryptd`.
    pub(crate) letter: char,
    modes: Modes,
}

#[vtable]
impl Files for Shared {
    const FILES: &'static [File<Self>] = &[File::read_only(c"stats", |shared, f| {
        stats::write(&shared.stats, f)
    })];
}

impl Shared {
    /// Returns [`EINVAL`] if a module parameter has an invalid value, and [`ENOMEM`] without
    /// memory.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let shared = Self {
            modes: Modes::from_params()?,
            stats: Stats::new()?,
            targets: Atomic::new(0),
            next_id: Atomic::new(1),
            letter: if is_replacement() { 'k' } else { 'r' },
        };
        Ok(Arc::new(shared, GFP_KERNEL)?)
    }
}

/// Returns whether the target replaces dm-crypt.
fn is_replacement() -> bool {
    module_parameters::replace.value()
}

/// Registers the target under the name that the module parameters select.
fn register(shared: Arc<Shared>) -> Result<dm::Registration<Crypt>> {
    let name = if is_replacement() {
        c"crypt"
    } else {
        <Crypt as dm::Target>::NAME
    };

    dm::Registration::with_name(name, shared).inspect_err(|&error| {
        if error == EBUSY {
            pr_err!(
                "target `{}` exists: `rmmod dm_crypt`, or load without `replace=1`\n",
                name.to_str().unwrap_or_default()
            );
        }
    })
}

/// A target instance, built from one table line.
#[pin_data]
pub(crate) struct Crypt {
    shared: Arc<Shared>,
    device: dm::DeviceIndex,
    config: Config,
    sizes: Sizes,
    /// Set if the device stores a tuple beside each sector.
    tuples: Option<TuplePool>,
    /// The format and its key.
    #[pin]
    keys: Keys,
    /// Writes to `device` must arrive whole and in order.
    is_zoned: bool,
    dispatch: Dispatch,
    /// Submits writes in sector order if `dispatch.sorted_writes` is set.
    #[pin]
    send: dm::SortedSubmitQueue<Crypt>,
    /// Allocates the clones that carry encrypted data to the device.
    #[pin]
    bios: BioSet,
    /// Allocates the bounce pages.
    #[pin]
    pages: Mempool<LimitedPages>,
}

/// Number of bios in the reserve of a target, as in dm-crypt.
const RESERVE_BIOS: NonZeroU16 = match NonZeroU16::new(64) {
    Some(bios) => bios,
    None => NonZeroU16::MIN,
};

#[vtable]
impl dm::Target for Crypt {
    const NAME: &'static CStr = c"rcrypt";

    /// The version of dm-crypt with the features of this target; `cryptsetup` checks it.
    const VERSION: [u32; 3] = [1, 29, 0];

    const ATOMIC_WRITES: bool = true;

    const INTEGRITY_PAYLOADS: bool = true;
    const AUDITED: bool = true;

    type ModuleData = Arc<Shared>;

    type PerBio = io::PerBio;

    fn ctr(
        shared: &Arc<Shared>,
        table: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, CtrError> {
        const TOO_FEW: &CStr = c"Not enough arguments";

        if args.len() < 5 {
            return Err(CtrError::invalid(TOO_FEW));
        }
        let cipher = args.required(TOO_FEW)?;
        // The key text is overwritten when this function returns.
        let key = args.secret(TOO_FEW)?;
        let iv_offset = args.required(TOO_FEW)?;
        let path = args.required(TOO_FEW)?;
        let start = args.required(TOO_FEW)?;

        // Checks run in the order of the C code, so a line with two errors reports the same
        // message.
        let key =
            KeyArg::parse(key.as_bytes()).ok_or(CtrError::invalid(c"Cannot parse key size"))?;
        let mut options = Options::parse(args, table.len_sectors())?;
        let spec = CipherSpec::parse(cipher, options.is_aead())?;
        let mut key_text = KeyText::Wiped;
        let fetch_key = || {
            let (key, text) = key.fetch()?;
            key_text = text;
            Ok(key)
        };
        let (mut format, key_layout) = Format::new(&spec, key.size_bytes(), fetch_key, &options)?;
        let iv_offset = table::iv_offset(iv_offset, &options)?;
        let start = table::start(start);
        let device = table
            .get_device(path, start.as_ref().copied().unwrap_or(0))
            .map_err(|error| CtrError::new(c"Device lookup failed", error))?;
        let start = start?;
        let sizes = Sizes::new(
            options.sector_size,
            table.logical_block_size(device)?,
            options.integrity.is_some(),
            cpu::nr_cpu_ids(),
        );
        let tuple = format.bind_integrity_profile(table.integrity_profile(device), &options)?;
        let tuples = match tuple {
            Some(tuple) => Some(TuplePool::new(tuple, &options)?),
            None => None,
        };

        let is_zoned = table.is_zoned(device);
        if is_zoned {
            // As in dm-crypt: status then shows the option.
            options.no_write_workqueue = true;
            table.emulate_zone_append();
        }
        let needs = (format.may_sleep(), tuples.is_some());
        let (dispatch, send) = Dispatch::new(&options, table, device, needs, shared)?;
        let pages = LimitedPages::new(shared.clone(), shared.modes)?;

        table.set_num_flush_bios(1);
        if options.allow_discards {
            table.set_num_discard_bios(1);
        }
        table.limit_swap_bios();
        let config = Config {
            cipher: CString::try_from_fmt(fmt!("{}", cipher.to_str().unwrap_or_default()))?,
            key_layout,
            iv_offset,
            start,
            options,
            tuple: tuple.unwrap_or_default(),
        };
        // CAST: From 32 to 64 bits.
        let key_len = key_layout.size_bytes as usize;
        let shared = shared.clone();

        Ok(try_pin_init!(Self {
            shared,
            device,
            config,
            sizes,
            tuples,
            keys <- Keys::new(format, key_text, key_len),
            is_zoned,
            dispatch,
            send <- dm::SortedSubmitQueue::new(send),
            bios <- BioSet::new(RESERVE_BIOS),
            pages <- Mempool::new(pages::RESERVE_PAGES, pages),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        io::map(self, bio)
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        io::end_io(bio)
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();

        self.keys
            .with_text(|key| self.config.write(key, device, out))
    }

    fn status_ima(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.config.write_ima(out)
    }

    fn message(self: Pin<&Self>, args: dm::Args<'_>, _out: &mut dm::StatusBuf<'_>) -> Result {
        self.keys.message(args, &self.config.key_layout)
    }

    fn postsuspend(self: Pin<&Self>) {
        self.keys.suspended();
    }

    fn preresume(self: Pin<&Self>) -> Result {
        self.keys.may_resume()
    }

    fn resume(self: Pin<&Self>) {
        self.keys.resumed();
    }

    fn io_hints(self: Pin<&Self>, limits: &mut dm::Limits<'_>) {
        limits.stack_block_size(self.config.options.sector_size);
        // A sector of direct I/O must not cross a page boundary.
        limits.align_dma_to_logical_block_size();
        if self.is_zoned {
            limits.limit_bio_sectors(split::MAX_WRITE_SECTORS);
        }
        if let Some(bytes) = NonZeroU32::new(split::MAX_WRITE) {
            limits.limit_atomic_writes(bytes);
        }
    }
}
