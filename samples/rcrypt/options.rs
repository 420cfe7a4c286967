// SPDX-License-Identifier: GPL-2.0

//! The optional arguments of the table line: `[<#opts> <opts>...]`.
//!
//! The grammar and the messages are those of dm-crypt, `crypt_ctr_optional()` in
//! `drivers/md/dm-crypt.c`, with these differences:
//!
//! - A line may have all ten options; C accepts at most nine.
//! - Numbers are rejected if C would truncate them or stop parsing at the first letter.
//! - `integrity:<n>` without an authentication type is rejected; C dereferences a bad pointer.
//! - The type `none` after `aead` is rejected; C prints one of them and uses the other.
//!
//! If an option is repeated, the last one applies, also for `integrity`.

use kernel::{
    fmt::{
        self,
        Write, //
    },
    prelude::*, //
};

use core::num::NonZeroU32;

use kscale::block::{
    bio::SECTOR_SIZE,
    dm::CtrError, //
};

use crate::table::decimal;

/// The number of options. A line may repeat an option in place of another.
const MAX_OPTIONS: usize = 10;

/// Maximum number of bytes stored with a sector, as in dm-crypt.
const MAX_TAG_SIZE_BYTES: u32 = 480;

/// The source of the tags that are stored with the sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// There are no tags; the space is used for IVs.
    None,
    /// The cipher generates the tags.
    Aead,
}

/// The option `integrity`: what is stored with each sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integrity {
    /// From 1 to 480.
    pub(crate) tag_size_bytes: u32,
    pub(crate) auth: Auth,
    /// `auth` as it is spelled in the line, for status output.
    letters: [u8; 4],
}

impl Integrity {
    const INVALID: CtrError = CtrError::invalid(c"Invalid integrity arguments");

    /// Parses the value of `integrity:`. Returns [`None`] if it does not start with a digit.
    fn parse(arg: &str) -> Option<Result<Self, CtrError>> {
        if !arg.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let Some((size, auth)) = arg.split_once(':') else {
            return Some(Err(Self::INVALID));
        };
        let size = decimal(size).filter(|size| (1..=MAX_TAG_SIZE_BYTES).contains(size));
        let Some(tag_size_bytes) = size else {
            return Some(Err(Self::INVALID));
        };

        let auth_of = |name: &str| match name {
            name if name.eq_ignore_ascii_case("none") => Some(Auth::None),
            name if name.eq_ignore_ascii_case("aead") => Some(Auth::Aead),
            _ => None,
        };
        let this = auth_of(auth)
            .zip(auth.as_bytes().try_into().ok())
            .map(|(auth, letters)| Self {
                tag_size_bytes,
                auth,
                letters,
            });
        Some(this.ok_or(CtrError::invalid(c"Unknown integrity profile")))
    }

    /// Returns the option `integrity:<size>:none`, or [`None`] for 0 bytes.
    #[cfg(kscale_kunit)]
    pub(crate) fn testing(tag_size_bytes: u32) -> Option<Self> {
        Some(Self {
            tag_size_bytes,
            auth: Auth::None,
            letters: *b"none",
        })
        .filter(|_| tag_size_bytes > 0)
    }

    /// Returns the authentication type as it is spelled in the line.
    fn auth_letters(&self) -> &str {
        core::str::from_utf8(&self.letters).unwrap_or_default()
    }
}

/// The optional arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Passes discards to the device. This reveals which sectors are in use.
    pub(crate) allow_discards: bool,
    /// Encrypts and decrypts a bio on the CPU that queued it.
    pub(crate) same_cpu_crypt: bool,
    /// Makes the workqueues `WQ_HIGHPRI`.
    pub(crate) high_priority: bool,
    /// The worker that encrypts a write submits it, without sorting.
    pub(crate) submit_from_crypt_cpus: bool,
    /// The completion of a read decrypts it.
    pub(crate) no_read_workqueue: bool,
    /// The submitter of a write encrypts it.
    pub(crate) no_write_workqueue: bool,
    /// The tags and IVs stored with each sector.
    pub(crate) integrity: Option<Integrity>,
    /// Size of an encrypted sector in bytes: a power of two from 512 to 4096.
    pub(crate) sector_size: NonZeroU32,
    /// The IV counts in units of `sector_size`, not of 512 bytes.
    pub(crate) iv_large_sectors: bool,
    /// Length in bytes of the authentication part of the key; not zero.
    pub(crate) integrity_key_size: Option<u32>,
}

impl Options {
    /// The options of a line without optional arguments.
    pub(crate) const DEFAULT: Self = Self {
        allow_discards: false,
        same_cpu_crypt: false,
        high_priority: false,
        submit_from_crypt_cpus: false,
        no_read_workqueue: false,
        no_write_workqueue: false,
        integrity: None,
        sector_size: match NonZeroU32::new(SECTOR_SIZE) {
            Some(size) => size,
            None => NonZeroU32::MIN,
        },
        iv_large_sectors: false,
        integrity_key_size: None,
    };

    /// Parses the arguments after the fifth argument of a line of `len_sectors`.
    ///
    /// As in C, arguments after the counted ones are ignored.
    pub(crate) fn parse<'a>(
        mut args: impl Iterator<Item = &'a CStr>,
        len_sectors: u64,
    ) -> Result<Self, CtrError> {
        const BAD_COUNT: CtrError = CtrError::invalid(c"Invalid number of feature args");
        let mut options = Self::DEFAULT;

        let Some(count) = args.next() else {
            return Ok(options);
        };
        let count = count
            .to_str()
            .ok()
            .and_then(decimal::<usize>)
            .filter(|&count| count <= MAX_OPTIONS)
            .ok_or(BAD_COUNT)?;

        let mut opts: [Option<&CStr>; MAX_OPTIONS] = [None; MAX_OPTIONS];
        for slot in opts.iter_mut().take(count) {
            *slot = Some(args.next().ok_or(BAD_COUNT)?);
        }
        for opt in opts.into_iter().flatten() {
            options.parse_one(opt, len_sectors)?;
        }
        Ok(options)
    }

    fn parse_one(&mut self, opt: &CStr, len_sectors: u64) -> Result<(), CtrError> {
        let opt = opt.to_str().unwrap_or_default();

        let flag = self
            .flags_mut()
            .into_iter()
            .find(|(name, _)| opt.eq_ignore_ascii_case(name));
        if let Some((_, flag)) = flag {
            *flag = true;
        } else if let Some(integrity) = opt.strip_prefix("integrity:").and_then(Integrity::parse) {
            let integrity = integrity?;
            if self.is_aead() && integrity.auth == Auth::None {
                return Err(Integrity::INVALID);
            }
            self.integrity = Some(integrity);
        } else if let Some(size) = opt.strip_prefix("integrity_key_size:").filter(is_number) {
            self.integrity_key_size = Some(
                decimal(size)
                    .filter(|&size| size != 0)
                    .ok_or(CtrError::invalid(c"Invalid integrity_key_size argument"))?,
            );
        } else if let Some(size) = opt.strip_prefix("sector_size:").filter(is_number) {
            self.sector_size = decimal::<u32>(size)
                .filter(|size| size.is_power_of_two() && (512..=4096).contains(size))
                .and_then(NonZeroU32::new)
                .ok_or(CtrError::invalid(c"Invalid feature value for sector_size"))?;
            if !self.is_aligned(len_sectors) {
                return Err(CtrError::invalid(
                    c"Device size is not multiple of sector_size feature",
                ));
            }
        } else {
            return Err(CtrError::invalid(c"Invalid feature arguments"));
        }
        Ok(())
    }

    /// Returns the options without a value, in the order in which dm-crypt prints them.
    fn flags_mut(&mut self) -> [(&'static str, &mut bool); 7] {
        [
            ("allow_discards", &mut self.allow_discards),
            ("same_cpu_crypt", &mut self.same_cpu_crypt),
            ("high_priority", &mut self.high_priority),
            ("submit_from_crypt_cpus", &mut self.submit_from_crypt_cpus),
            ("no_read_workqueue", &mut self.no_read_workqueue),
            ("no_write_workqueue", &mut self.no_write_workqueue),
            ("iv_large_sectors", &mut self.iv_large_sectors),
        ]
    }

    fn flags(mut self) -> [(&'static str, bool); 7] {
        self.flags_mut().map(|(name, flag)| (name, *flag))
    }

    /// Returns whether the cipher authenticates.
    pub(crate) fn is_aead(&self) -> bool {
        self.integrity
            .is_some_and(|integrity| integrity.auth == Auth::Aead)
    }

    /// Returns the sector size in units of 512 bytes, a power of two.
    #[inline]
    pub(crate) fn sectors(&self) -> u64 {
        u64::from(self.sector_size.get() / SECTOR_SIZE)
    }

    /// Returns how many bits of a sector number, in units of 512 bytes, its IV does not depend on.
    #[inline]
    pub(crate) fn iv_shift(&self) -> u32 {
        if self.iv_large_sectors {
            self.sectors().trailing_zeros()
        } else {
            0
        }
    }

    /// Returns the number from which the IV of `sector` is generated. `sector` is in units of 512
    /// bytes.
    #[inline]
    pub(crate) fn iv_sector(&self, sector: u64) -> u64 {
        sector.wrapping_shr(self.iv_shift())
    }

    /// Returns whether `sectors` units of 512 bytes are a multiple of the sector size.
    #[inline]
    pub(crate) fn is_aligned(&self, sectors: u64) -> bool {
        sectors & self.sectors().wrapping_sub(1) == 0
    }

    /// Returns the sector size, or [`None`] for the default.
    fn large_sector_size(&self) -> Option<NonZeroU32> {
        Some(self.sector_size).filter(|&size| size != Self::DEFAULT.sector_size)
    }

    /// Writes the options, preceded by their number, as dm-crypt does in a table line.
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        let flags = self.flags();
        let sector_size = self.large_sector_size();
        let count = flags.iter().filter(|(_, is_set)| *is_set).count()
            + usize::from(self.integrity.is_some())
            + usize::from(sector_size.is_some())
            + usize::from(self.integrity_key_size.is_some());

        if count != 0 {
            write!(out, " {count}")?;
        }
        let [first @ .., last] = flags;
        for (name, _) in first.into_iter().filter(|(_, is_set)| *is_set) {
            write!(out, " {name}")?;
        }
        if let Some(integrity) = &self.integrity {
            let auth = integrity.auth_letters();
            write!(out, " integrity:{}:{auth}", integrity.tag_size_bytes)?;
        }
        if let Some(size) = sector_size {
            write!(out, " sector_size:{size}")?;
        }
        if let (name, true) = last {
            write!(out, " {name}")?;
        }
        if let Some(size) = self.integrity_key_size {
            write!(out, " integrity_key_size:{size}")?;
        }
        Ok(())
    }

    /// Writes the options in dm-crypt's format for the Integrity Measurement Architecture.
    pub(crate) fn write_ima(&self, out: &mut impl Write) -> fmt::Result {
        for (name, is_set) in self.flags() {
            write!(out, ",{name}={}", if is_set { 'y' } else { 'n' })?;
        }
        if let Some(integrity) = &self.integrity {
            let auth = integrity.auth_letters();
            let size = integrity.tag_size_bytes;
            write!(out, ",integrity_tag_size={size},cipher_auth={auth}")?;
        }
        if let Some(size) = self.large_sector_size() {
            write!(out, ",sector_size={size}")?;
        }
        Ok(())
    }
}

/// Returns whether `arg` consists of at least one digit and nothing else.
fn is_number(arg: &&str) -> bool {
    !arg.is_empty() && arg.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_options)]
mod tests {
    use super::*;
    use crate::table::testing::Text;

    fn options(args: &[&'static CStr]) -> Result<Options, CtrError> {
        Options::parse(args.iter().copied(), 2048)
    }

    #[test]
    fn option_lists() {
        let default = Options::DEFAULT;
        let large = Options {
            allow_discards: true,
            sector_size: NonZeroU32::MIN.saturating_add(4095),
            iv_large_sectors: true,
            ..default
        };

        assert!(options(&[]).ok() == Some(default));
        assert!(options(&[c"0"]).ok() == Some(default));
        assert!(options(&[c"0", c"ignored"]).ok() == Some(default));
        assert!(options(&[c"1", c"sector_size:512"]).ok() == Some(default));
        assert!(
            options(&[
                c"3",
                c"ALLOW_discards",
                c"sector_size:4096",
                c"IV_large_Sectors"
            ])
            .ok()
                == Some(large)
        );
    }

    #[test]
    fn all_ten_at_once_are_printed_in_the_order_of_dm_crypt() -> Result {
        let all = options(&[
            c"10",
            c"integrity_key_size:32",
            c"IV_LARGE_SECTORS",
            c"sector_size:4096",
            c"integrity:48:AeAd",
            c"No_Write_Workqueue",
            c"no_read_workqueue",
            c"submit_from_crypt_cpus",
            c"high_priority",
            c"same_cpu_crypt",
            c"allow_discards",
        ])
        .map_err(|e| e.error())?;
        let mut text = Text::new();
        all.write(&mut text).map_err(|_| ENOMEM)?;
        assert!(
            text.bytes()
                == b" 10 allow_discards same_cpu_crypt high_priority submit_from_crypt_cpus \
                     no_read_workqueue no_write_workqueue integrity:48:AeAd sector_size:4096 \
                     iv_large_sectors integrity_key_size:32"
        );

        let mut text = Text::new();
        all.write_ima(&mut text).map_err(|_| ENOMEM)?;
        assert!(
            text.bytes()
                == b",allow_discards=y,same_cpu_crypt=y,high_priority=y,submit_from_crypt_cpus=y,\
                     no_read_workqueue=y,no_write_workqueue=y,iv_large_sectors=y,\
                     integrity_tag_size=48,cipher_auth=AeAd,sector_size=4096"
        );

        let mut text = Text::new();
        Options::DEFAULT.write(&mut text).map_err(|_| ENOMEM)?;
        assert!(text.bytes() == b"");
        Options::DEFAULT.write_ima(&mut text).map_err(|_| ENOMEM)?;
        assert!(
            text.bytes()
                == b",allow_discards=n,same_cpu_crypt=n,high_priority=n,submit_from_crypt_cpus=n,\
                     no_read_workqueue=n,no_write_workqueue=n,iv_large_sectors=n"
        );
        Ok(())
    }

    #[test]
    fn the_last_of_a_repeated_option_counts() -> Result {
        let last = options(&[
            c"3",
            c"integrity:16:none",
            c"integrity:32:aead",
            c"sector_size:512",
        ])
        .map_err(|e| e.error())?;
        let integrity = last.integrity.ok_or(EINVAL)?;
        assert_eq!(integrity.tag_size_bytes, 32);
        assert_eq!(integrity.auth, Auth::Aead);
        Ok(())
    }

    #[test]
    fn bad_options() {
        const COUNT: &CStr = c"Invalid number of feature args";
        const UNKNOWN: &CStr = c"Invalid feature arguments";
        const SECTOR_SIZE: &CStr = c"Invalid feature value for sector_size";
        const INTEGRITY: &CStr = c"Invalid integrity arguments";
        const PROFILE: &CStr = c"Unknown integrity profile";
        const KEY_SIZE: &CStr = c"Invalid integrity_key_size argument";

        for (args, message) in [
            (&[c"x"][..], COUNT),
            (&[c"-1"], COUNT),
            (&[c"11"], COUNT),
            (&[c"1"], COUNT),
            (&[c"2", c"allow_discards"], COUNT),
            (&[c"1", c"allow_discard"], UNKNOWN),
            (&[c"1", c"sector_size:"], UNKNOWN),
            (&[c"1", c"sector_size:512x"], UNKNOWN),
            (&[c"1", c"SECTOR_SIZE:512"], UNKNOWN),
            (&[c"1", c"sector_size:0"], SECTOR_SIZE),
            (&[c"1", c"sector_size:256"], SECTOR_SIZE),
            (&[c"1", c"sector_size:1536"], SECTOR_SIZE),
            (&[c"1", c"sector_size:8192"], SECTOR_SIZE),
            (&[c"1", c"sector_size:66048"], SECTOR_SIZE),
            (&[c"1", c"integrity"], UNKNOWN),
            (&[c"1", c"integrity:"], UNKNOWN),
            (&[c"1", c"integrity::aead"], UNKNOWN),
            (&[c"1", c"Integrity:16:aead"], UNKNOWN),
            (&[c"1", c"integrity:16"], INTEGRITY),
            (&[c"1", c"integrity:16x:aead"], INTEGRITY),
            (&[c"1", c"integrity:0:aead"], INTEGRITY),
            (&[c"1", c"integrity:481:none"], INTEGRITY),
            (&[c"1", c"integrity:4294967312:none"], INTEGRITY),
            (
                &[c"2", c"integrity:16:aead", c"integrity:16:none"],
                INTEGRITY,
            ),
            (&[c"1", c"integrity:16:"], PROFILE),
            (&[c"1", c"integrity:16:hmac"], PROFILE),
            (&[c"1", c"integrity:16:aead:"], PROFILE),
            (&[c"1", c"integrity_key_size:"], UNKNOWN),
            (&[c"1", c"integrity_key_size:1x"], UNKNOWN),
            (&[c"1", c"integrity_key_size:0"], KEY_SIZE),
            (&[c"1", c"integrity_key_size:4294967297"], KEY_SIZE),
        ] {
            assert!(options(args).err().and_then(|e| e.message()) == Some(message));
        }

        let odd_length = Options::parse([c"1", c"sector_size:1024"].into_iter(), 2047);
        assert!(
            odd_length.err().and_then(|e| e.message())
                == Some(c"Device size is not multiple of sector_size feature")
        );
    }
}
