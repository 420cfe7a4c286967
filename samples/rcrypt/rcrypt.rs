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
//! - `limit_mode` selects how the pages of a target are limited, see `limit.rs`.
//! - `page_mode` selects how pages are allocated, see `pages.rs`.
//! - `cached_pages` is the number of pages that a target stashes per CPU, see `pages.rs`.
//! - `max_read_size` and `max_write_size` limit the size of bios, see `split.rs`.
//!
//! `/sys/kernel/debug/rcrypt/stats` shows where bios were processed and how pages were allocated.

#![forbid(unsafe_code)]

use kernel::{
    debugfs,
    fmt,
    prelude::*,
    str::CString, //
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
    mm::{
        mempool::Mempool,
        page_stash::PageStash, //
    }, //
};

mod cipher_spec;
mod dispatch;
mod format;
mod io;
mod iv;
mod keys;
mod limit;
mod options;
mod pages;
mod split;
mod stats;
mod table;
mod tagged;

use cipher_spec::CipherSpec;
use dispatch::Work;
use format::tuple::Integrity;
use format::Cryptor;
use keys::Keys;
use limit::Mode;
use options::Options;
use pages::{
    LimitedPages,
    Strategy, //
};
use split::Sizes;
use table::{
    KeyArg,
    KeyText,
    Line, //
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

#[pin_data]
struct RcryptModule {
    _registration: dm::Registration<Crypt>,
    #[pin]
    _stats: debugfs::File<()>,
    _dir: debugfs::Dir,
}

impl kernel::InPlaceModule for RcryptModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = debugfs::Dir::new(c"rcrypt");

        try_pin_init!(Self {
            _registration: limit_mode()
                .and(strategy())
                .and_then(|_| register())?,
            _stats <- dir.read_callback_file(c"stats", (), &|(), f| stats::write(f)),
            _dir: dir,
        })
    }
}

/// Returns the page limit mode that the module parameters select.
fn limit_mode() -> Result<Mode> {
    let value = module_parameters::limit_mode.value();

    Mode::from_param(value).ok_or_else(|| {
        pr_err!("limit_mode={value}: it is 0 (exact), 1 (approx) or 2 (credit)\n");
        EINVAL
    })
}

/// Returns the page allocation strategy that the module parameters select.
fn strategy() -> Result<Strategy> {
    let page_mode = module_parameters::page_mode.value();
    let cached_pages = module_parameters::cached_pages.value();

    if usize::from(cached_pages) > PageStash::MAX_PAGES_PER_CPU {
        pr_err!(
            "cached_pages={cached_pages}: it is at most {}\n",
            PageStash::MAX_PAGES_PER_CPU
        );
        return Err(EINVAL);
    }
    Strategy::from_params(page_mode, cached_pages).ok_or_else(|| {
        pr_err!(
            "page_mode={page_mode}: it is 0 (single), 1 (bulk), 2 (compound), 3 (recycled) or 4 \
             (mixed)\n"
        );
        EINVAL
    })
}

/// Returns whether the target replaces dm-crypt.
fn is_replacement() -> bool {
    module_parameters::replace.value()
}

/// Registers the target under the name that the module parameters select.
fn register() -> Result<dm::Registration<Crypt>> {
    let name = if is_replacement() {
        c"crypt"
    } else {
        <Crypt as dm::Target>::NAME
    };

    dm::Registration::with_name(name, ()).inspect_err(|&error| {
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
    device: dm::DeviceId,
    /// Start of the target on `device`, in sectors.
    start: u64,
    /// Added to the sector number from which the IV is generated.
    iv_offset: u64,
    options: Options,
    sizes: Sizes,
    /// Set if the device stores tags or vectors beside the sectors.
    integrity: Option<Integrity>,
    /// The cryptor and its key.
    #[pin]
    keys: Keys,
    /// Writes to `device` must arrive whole and in order.
    is_zoned: bool,
    work: Work,
    /// Submits writes in sector order if `work.sends_in_order` is set.
    #[pin]
    send: dm::SortedSubmitQueue<Crypt>,
    /// Allocates the clones that carry encrypted data to the device.
    #[pin]
    bios: BioSet,
    /// Allocates the bounce pages.
    #[pin]
    pages: Mempool<LimitedPages>,
    /// The cipher argument of the table line, for status output.
    cipher: CString,
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

    const AUDITED: bool = true;

    type ModuleData = ();

    type PerBio = io::PerBio;

    fn ctr(
        _data: &(),
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
        let mut cryptor = Cryptor::new(&spec, key.size_bytes(), fetch_key, options)?;
        let key_layout = cryptor.key_layout();
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
        );
        let integrity = match cryptor.fit(table.integrity_profile(device), &options)? {
            Some(layout) => Some(Integrity::new(layout, &options)?),
            None => None,
        };

        let is_zoned = table.is_zoned(device);
        if is_zoned {
            // As in dm-crypt: status then shows the option.
            options.no_write_workqueue = true;
            table.emulate_zone_append();
        }
        let letter = if is_replacement() { 'k' } else { 'r' };
        let (work, send) = Work::new(&options, table, device, cryptor.may_sleep(), letter)?;
        let cipher = CString::try_from_fmt(fmt!("{}", cipher.to_str().unwrap_or_default()))?;
        let pages = LimitedPages::new(limit_mode()?, strategy()?)?;

        table.send_flush_bios();
        if options.allow_discards {
            table.send_discard_bios();
        }
        table.limit_swap_bios();

        Ok(try_pin_init!(Self {
            device,
            start,
            iv_offset,
            options,
            sizes,
            integrity,
            keys <- Keys::new(cryptor, key_text, key_layout),
            is_zoned,
            work,
            send <- dm::SortedSubmitQueue::new(send),
            bios <- BioSet::new(RESERVE_BIOS),
            pages <- Mempool::new(pages::RESERVE_PAGES, pages),
            cipher,
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        io::map(self, bio)
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        io::end_io(bio)
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceId {
        self.device
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.keys.with_text(|key| {
            let line = Line {
                cipher: self.cipher(),
                key,
                key_layout: self.keys.layout(),
                iv_offset: self.iv_offset,
                device: out.device_name(self.device).unwrap_or_default(),
                start: self.start,
                options: self.options,
            };

            line.write(out)
        })
    }

    fn status_ima(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        table::write_ima(self.cipher(), self.keys.layout(), &self.options, out)
    }

    fn message(self: Pin<&Self>, args: dm::Args<'_>, _out: &mut dm::StatusBuf<'_>) -> Result {
        self.keys.message(args)
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
        limits.stack_block_size(self.options.sector_size);
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

impl Crypt {
    /// Returns the cipher argument of the table line.
    fn cipher(&self) -> &str {
        self.cipher.to_str().unwrap_or_default()
    }
}
