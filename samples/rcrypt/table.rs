// SPDX-License-Identifier: GPL-2.0

//! The table line: what `dmsetup create` gets and `dmsetup table` prints.
//!
//! ```text
//! <cipher> <key> <iv_offset> <dev path> <start> [<#opts> <opts>...]
//! ```
//!
//! The grammar and the messages are those of dm-crypt, `crypt_ctr()` in `drivers/md/dm-crypt.c`,
//! with two differences: keys in a keyring are not supported, and numbers that C silently cuts to
//! fewer bits are refused.

use kernel::{
    fmt::{
        self,
        Write, //
    },
    prelude::*, //
};

use core::{
    num::NonZeroU32,
    str::FromStr, //
};

use kscale::{
    bio::SECTOR_SIZE,
    dm::CtrError,
    key::Key, //
};

/// Decodes the second argument; a `-` is the empty key.
pub(crate) fn key(arg: &[u8]) -> Result<Key> {
    if arg.len() < 2 && arg != b"-" {
        return Err(EINVAL);
    }
    Key::from_hex(if arg == b"-" { b"" } else { arg })
}

/// Parses the third argument.
pub(crate) fn iv_offset(arg: &CStr, options: &Options) -> Result<u64, CtrError> {
    arg.to_str()
        .ok()
        .and_then(decimal)
        .filter(|&iv_offset| options.is_aligned(iv_offset))
        .ok_or(CtrError::invalid(c"Invalid iv_offset sector"))
}

/// Parses the fifth argument.
pub(crate) fn start(arg: &CStr) -> Result<u64, CtrError> {
    arg.to_str()
        .ok()
        .and_then(decimal)
        .ok_or(CtrError::invalid(c"Invalid device sector"))
}

/// The optional arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Discards are passed on, which tells others which sectors are in use.
    pub(crate) allow_discards: bool,
    /// What is encrypted at once, in bytes: a power of two from 512 to 4096.
    pub(crate) sector_size: NonZeroU32,
    /// The IV counts in `sector_size`, not in 512 bytes.
    pub(crate) iv_large_sectors: bool,
}

impl Options {
    /// Without any optional argument.
    const DEFAULT: Self = Self {
        allow_discards: false,
        sector_size: match NonZeroU32::new(SECTOR_SIZE) {
            Some(size) => size,
            None => NonZeroU32::MIN,
        },
        iv_large_sectors: false,
    };

    /// Parses what follows the fifth argument of a line of `len_sectors`.
    ///
    /// As in C, arguments after those that are counted are ignored.
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
            .and_then(decimal::<u32>)
            .filter(|&count| count <= 9)
            .ok_or(BAD_COUNT)?;

        let mut opts: [Option<&CStr>; 9] = [None; 9];
        for slot in opts.iter_mut().take(count as usize) {
            *slot = Some(args.next().ok_or(BAD_COUNT)?);
        }
        for opt in opts.into_iter().flatten() {
            options.parse_one(opt, len_sectors)?;
        }
        Ok(options)
    }

    fn parse_one(&mut self, opt: &CStr, len_sectors: u64) -> Result<(), CtrError> {
        let opt = opt.to_str().unwrap_or_default();

        if opt.eq_ignore_ascii_case("allow_discards") {
            self.allow_discards = true;
        } else if let Some(size) = opt.strip_prefix("sector_size:").and_then(decimal::<u64>) {
            self.sector_size = u32::try_from(size)
                .ok()
                .filter(|size| size.is_power_of_two() && (512..=4096).contains(size))
                .and_then(NonZeroU32::new)
                .ok_or(CtrError::invalid(c"Invalid feature value for sector_size"))?;
            if !self.is_aligned(len_sectors) {
                return Err(CtrError::invalid(
                    c"Device size is not multiple of sector_size feature",
                ));
            }
        } else if opt.eq_ignore_ascii_case("iv_large_sectors") {
            self.iv_large_sectors = true;
        } else {
            return Err(CtrError::invalid(c"Invalid feature arguments"));
        }
        Ok(())
    }

    /// Returns the sector size in units of 512 bytes, a power of two.
    #[inline]
    pub(crate) fn sectors(&self) -> u64 {
        u64::from(self.sector_size.get() / SECTOR_SIZE)
    }

    /// Returns whether so many units of 512 bytes are whole sectors.
    #[inline]
    pub(crate) fn is_aligned(&self, sectors: u64) -> bool {
        sectors & self.sectors().wrapping_sub(1) == 0
    }

    /// Writes the options as dm-crypt does, with their number in front.
    fn write(&self, out: &mut impl Write) -> fmt::Result {
        let sector_size = self.sector_size != Self::DEFAULT.sector_size;
        let count = u32::from(self.allow_discards)
            + u32::from(sector_size)
            + u32::from(self.iv_large_sectors);

        if count != 0 {
            write!(out, " {count}")?;
        }
        if self.allow_discards {
            write!(out, " allow_discards")?;
        }
        if sector_size {
            write!(out, " sector_size:{}", self.sector_size)?;
        }
        if self.iv_large_sectors {
            write!(out, " iv_large_sectors")?;
        }
        Ok(())
    }
}

/// What a line is printed from.
pub(crate) struct Line<'a> {
    pub(crate) cipher: &'a str,
    pub(crate) key: &'a Key,
    pub(crate) iv_offset: u64,
    /// The device as `<major>:<minor>`.
    pub(crate) device: &'a str,
    pub(crate) start: u64,
    pub(crate) options: Options,
}

impl Line<'_> {
    /// Writes the line, byte for byte as dm-crypt does for the same arguments.
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        write!(out, "{} ", self.cipher)?;
        if self.key.as_bytes().is_empty() {
            write!(out, "-")?;
        } else {
            write!(out, "{:x}", self.key)?;
        }
        write!(out, " {} {} {}", self.iv_offset, self.device, self.start)?;
        self.options.write(out)
    }
}

/// Parses digits only: [`FromStr`] takes a plus sign, which C does not.
pub(crate) fn decimal<N: FromStr>(arg: &str) -> Option<N> {
    if arg.bytes().all(|byte| byte.is_ascii_digit()) {
        arg.parse().ok()
    } else {
        None
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_table)]
mod tests {
    use super::*;

    fn options(args: &[&'static CStr]) -> Result<Options, CtrError> {
        Options::parse(args.iter().copied(), 2048)
    }

    #[test]
    fn keys() -> Result {
        assert_eq!(key(b"-")?.as_bytes(), &[]);
        assert_eq!(key(b"00ff")?.as_bytes(), &[0x00, 0xff]);
        assert_eq!(key(b"00f")?.as_bytes(), &[0x00]);
        for arg in [&b""[..], b"a", b"zz", b"0x12", b":32:logon:name"] {
            assert_eq!(key(arg).err(), Some(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn option_lists() {
        let default = Options::DEFAULT;
        let all = Options {
            allow_discards: true,
            sector_size: NonZeroU32::MIN.saturating_add(4095),
            iv_large_sectors: true,
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
                == Some(all)
        );
    }

    #[test]
    fn bad_options() {
        for (args, message) in [
            (&[c"x"][..], c"Invalid number of feature args"),
            (&[c"-1"], c"Invalid number of feature args"),
            (&[c"10"], c"Invalid number of feature args"),
            (&[c"1"], c"Invalid number of feature args"),
            (
                &[c"2", c"allow_discards"],
                c"Invalid number of feature args",
            ),
            (&[c"1", c"allow_discard"], c"Invalid feature arguments"),
            (&[c"1", c"sector_size:"], c"Invalid feature arguments"),
            (&[c"1", c"sector_size:512x"], c"Invalid feature arguments"),
            (&[c"1", c"integrity:16:aead"], c"Invalid feature arguments"),
            (
                &[c"1", c"sector_size:0"],
                c"Invalid feature value for sector_size",
            ),
            (
                &[c"1", c"sector_size:256"],
                c"Invalid feature value for sector_size",
            ),
            (
                &[c"1", c"sector_size:1536"],
                c"Invalid feature value for sector_size",
            ),
            (
                &[c"1", c"sector_size:8192"],
                c"Invalid feature value for sector_size",
            ),
            (
                &[c"1", c"sector_size:66048"],
                c"Invalid feature value for sector_size",
            ),
        ] {
            assert!(options(args).err().and_then(|e| e.message()) == Some(message));
        }

        let odd_length = Options::parse([c"1", c"sector_size:1024"].into_iter(), 2047);
        assert!(
            odd_length.err().and_then(|e| e.message())
                == Some(c"Device size is not multiple of sector_size feature")
        );
    }

    #[test]
    fn numbers() {
        let default = Options::DEFAULT;
        let large = Options {
            sector_size: NonZeroU32::MIN.saturating_add(4095),
            ..default
        };

        assert_eq!(iv_offset(c"8", &large).ok(), Some(8));
        assert_eq!(iv_offset(c"7", &default).ok(), Some(7));
        assert!(iv_offset(c"7", &large).is_err());
        assert_eq!(start(c"18446744073709551615").ok(), Some(u64::MAX));
        for arg in [c"", c"-1", c"+1", c"1s", c"0x10", c"18446744073709551616"] {
            assert!(start(arg).is_err());
            assert!(iv_offset(arg, &default).is_err());
        }
    }

    #[test]
    fn line_is_printed_as_dm_crypt_does() -> Result {
        struct Text(KVec<u8>);

        impl Write for Text {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0
                    .extend_from_slice(text.as_bytes(), GFP_KERNEL)
                    .map_err(|_| fmt::Error)
            }
        }

        for (key, options, expected) in [
            (&b""[..], &[][..], &b"aes-xts-plain64 - 1 7:0 2"[..]),
            (
                &[0x0a, 0xf0],
                &[c"1", c"sector_size:4096"],
                b"aes-xts-plain64 0af0 1 7:0 2 1 sector_size:4096",
            ),
            (
                &[0xff],
                &[
                    c"3",
                    c"iv_large_sectors",
                    c"sector_size:1024",
                    c"allow_discards",
                ],
                b"aes-xts-plain64 ff 1 7:0 2 3 allow_discards sector_size:1024 iv_large_sectors",
            ),
        ] {
            let mut text = Text(KVec::new());
            let line = Line {
                cipher: "aes-xts-plain64",
                key: &Key::new(key)?,
                iv_offset: 1,
                device: "7:0",
                start: 2,
                options: self::options(options).map_err(|e| e.error())?,
            };

            line.write(&mut text).map_err(|_| ENOMEM)?;
            assert!(*text.0 == *expected);
        }
        Ok(())
    }
}
