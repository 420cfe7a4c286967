// SPDX-License-Identifier: GPL-2.0

//! The table line, as `dmsetup create` takes it and `dmsetup table` prints it.
//!
//! ```text
//! <cipher> <key>|:<key size>:<key type>:<description> <iv_offset> <dev path> <start>
//!         [<#opts> <opts>...]
//! ```
//!
//! The grammar and the messages are those of dm-crypt, `crypt_ctr()` in `drivers/md/dm-crypt.c`.
//! One difference: numbers that C would truncate are rejected. `options.rs` parses the optional
//! arguments.

use kernel::{
    fmt::{
        self,
        Write, //
    },
    prelude::*,
    str::CString, //
};

use core::str::FromStr;

#[cfg(CONFIG_KEYS)]
use kscale::crypto::keyring;
use kscale::{
    block::dm::CtrError,
    crypto::secret::SecretBytes, //
};

use crate::{
    format::tuple::TupleLayout,
    options::Options, //
};

/// The key argument of a table line or of the message `key set`: a key or a reference to one.
///
/// # Examples
///
/// `-` is the empty key, `00ff` is a key of two bytes, and `:32:logon:cryptsetup:disk` is the key
/// `cryptsetup:disk` of 32 bytes in a keyring.
#[derive(Clone, Copy)]
pub(crate) struct KeyArg<'a> {
    size_bytes: u32,
    source: Source<'a>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    /// Hexadecimal digits, or a hyphen.
    Digits(&'a [u8]),
    /// `<key type>:<description>`.
    Keyring(&'a [u8]),
}

impl<'a> KeyArg<'a> {
    /// Parses the length of the key. As in C, [`KeyArg::fetch()`] parses the rest.
    pub(crate) fn parse(arg: &'a [u8]) -> Option<Self> {
        let Some(arg) = arg.strip_prefix(b":") else {
            return Some(Self {
                size_bytes: u32::try_from(arg.len() / 2).ok()?,
                source: Source::Digits(arg),
            });
        };
        if !cfg!(CONFIG_KEYS) {
            return None;
        }
        let (size, name) = split_at_colon(arg)?;
        let size_bytes = core::str::from_utf8(size)
            .ok()
            .and_then(decimal::<u32>)
            // C rejects numbers with the sign bit set.
            .filter(|size| i32::try_from(*size).is_ok())?;
        Some(Self {
            size_bytes,
            source: Source::Keyring(name),
        })
    }

    /// Returns the length of the key, in bytes.
    pub(crate) fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// Returns whether the argument is the key itself.
    pub(crate) fn is_in_digits(&self) -> bool {
        matches!(self.source, Source::Digits(_))
    }

    /// Decodes the key, or reads it from its keyring. Waits for a key that is under construction.
    ///
    /// Returns [`EINVAL`] if the argument is invalid or the key has another length, and the errors
    /// of the key search, for example [`ENOKEY`].
    pub(crate) fn fetch(&self) -> Result<(SecretBytes, KeyText)> {
        match self.source {
            Source::Digits(b"-") => Ok((
                SecretBytes::new(&[])?,
                KeyText::Digits(SecretBytes::new(&[])?),
            )),
            _ if self.size_bytes == 0 => Err(EINVAL),
            Source::Digits(digits) => Ok((
                SecretBytes::from_hex(digits)?,
                KeyText::Digits(SecretBytes::from_hex(digits)?),
            )),
            Source::Keyring(name) => fetch(name, self.size_bytes),
        }
    }
}

/// Reads the key `<key type>:<description>` from its keyring.
#[cfg(CONFIG_KEYS)]
fn fetch(name: &[u8], size_bytes: u32) -> Result<(SecretBytes, KeyText)> {
    // `isspace()` in C, for Latin-1. The table line prints the name without quoting.
    if name.iter().any(|byte| matches!(byte, b' ' | 9..=13 | 0xa0)) {
        pr_err!("whitespace chars not allowed in key string\n");
        return Err(EINVAL);
    }
    let (key_type, _) = split_at_colon(name).ok_or(EINVAL)?;
    let key_type = keyring::KeyType::from_name(key_type).ok_or(EINVAL)?;

    let name = core::str::from_utf8(name).map_err(|_| EINVAL)?;
    let name = CString::try_from_fmt(fmt!("{name}"))?;
    let description = description(&name).filter(|description| !description.is_empty());
    // CAST: From 32 to 64 bits.
    let key = keyring::request(key_type, description.ok_or(EINVAL)?, size_bytes as usize)?;
    Ok((key, KeyText::Name(name)))
}

/// Never called, see [`KeyArg::parse()`].
#[cfg(not(CONFIG_KEYS))]
fn fetch(_name: &[u8], _size_bytes: u32) -> Result<(SecretBytes, KeyText)> {
    Err(EINVAL)
}

/// Returns the text after the first colon.
#[cfg(CONFIG_KEYS)]
fn description(name: &CStr) -> Option<&CStr> {
    let name = name.to_bytes_with_nul();
    let (_, description) = split_at_colon(name)?;

    CStr::from_bytes_with_nul(description).ok()
}

/// Splits at the first colon.
fn split_at_colon(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|&byte| byte == b':')?;
    let (before, rest) = text.split_at_checked(colon)?;

    Some((before, rest.get(1..)?))
}

/// The key as the table line prints it.
pub(crate) enum KeyText {
    /// The key itself.
    Digits(SecretBytes),
    /// A reference to the key: `<key type>:<description>`.
    Name(CString),
    /// Zeros, for a wiped key.
    Wiped,
}

impl KeyText {
    /// Writes the text for a key of `size_bytes`.
    fn write(&self, size_bytes: u32, out: &mut impl Write) -> fmt::Result {
        match self {
            _ if size_bytes == 0 => write!(out, "-"),
            Self::Digits(key) => write!(out, "{key:x}"),
            Self::Name(name) => {
                write!(out, ":{size_bytes}:{}", name.to_str().unwrap_or_default())
            }
            Self::Wiped => (0..size_bytes).try_for_each(|_| write!(out, "00")),
        }
    }
}

/// Parses the IV offset, the third argument.
pub(crate) fn iv_offset(arg: &CStr, options: &Options) -> Result<u64, CtrError> {
    arg.to_str()
        .ok()
        .and_then(decimal)
        .filter(|&iv_offset| options.is_aligned(iv_offset))
        .ok_or(CtrError::invalid(c"Invalid iv_offset sector"))
}

/// Parses the start on the device, the fifth argument.
pub(crate) fn start(arg: &CStr) -> Result<u64, CtrError> {
    arg.to_str()
        .ok()
        .and_then(decimal)
        .ok_or(CtrError::invalid(c"Invalid device sector"))
}

/// The lengths of a key and of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyLayout {
    pub(crate) size_bytes: u32,
    /// The number of cipher keys and other parts, counted as in dm-crypt.
    pub(crate) parts: u32,
    /// Length of the part that belongs to the IV mode, in bytes.
    pub(crate) extra_size_bytes: u32,
    /// Length of the authentication key, in bytes.
    pub(crate) mac_size_bytes: u32,
}

impl KeyLayout {
    /// Returns the length of the part that belongs to the IV mode, in bytes.
    pub(crate) fn extra_len(&self) -> usize {
        // CAST: From 32 to 64 bits.
        self.extra_size_bytes as usize
    }

    /// Returns the lengths of the encryption key and of the authentication key, in bytes.
    ///
    /// Returns [`EINVAL`] if the key is too short.
    pub(crate) fn cipher_key_len(&self) -> Result<(usize, usize)> {
        let encryption = self
            .size_bytes
            .checked_sub(self.extra_size_bytes)
            .and_then(|size| size.checked_sub(self.mac_size_bytes))
            .ok_or(EINVAL)?;

        // CAST: From 32 to 64 bits, both times.
        Ok((encryption as usize, self.mac_size_bytes as usize))
    }
}

/// The parameters of a target that never change, from its table line and its device.
pub(crate) struct Config {
    /// The cipher argument of the table line.
    pub(crate) cipher: CString,
    pub(crate) key_layout: KeyLayout,
    /// Added to the sector number from which the IV is generated.
    pub(crate) iv_offset: u64,
    /// Start of the target on its device, in sectors.
    pub(crate) start: u64,
    pub(crate) options: Options,
    /// Empty if the format stores nothing beside the sectors.
    pub(crate) tuple: TupleLayout,
}

impl Config {
    /// Returns the number from which the IV of `sector` is generated. `sector` is relative to the
    /// target.
    #[inline]
    pub(crate) fn iv_sector(&self, sector: u64) -> u64 {
        self.options.iv_sector(sector.wrapping_add(self.iv_offset))
    }

    /// Returns the cipher argument of the table line.
    fn cipher(&self) -> &str {
        self.cipher.to_str().unwrap_or_default()
    }

    /// Writes the table line, byte for byte as dm-crypt does for the same arguments. `device` is
    /// `<major>:<minor>`.
    pub(crate) fn write(&self, key: &KeyText, device: &str, out: &mut impl Write) -> fmt::Result {
        write!(out, "{} ", self.cipher())?;
        key.write(self.key_layout.size_bytes, out)?;
        write!(out, " {} {device} {}", self.iv_offset, self.start)?;
        self.options.write(out)
    }

    /// Writes the data of the target for the Integrity Measurement Architecture, byte for byte as
    /// dm-crypt does. Device mapper writes the name and the version of the target before it.
    pub(crate) fn write_ima(&self, out: &mut impl Write) -> fmt::Result {
        let layout = &self.key_layout;

        self.options.write_ima(out)?;
        write!(out, ",cipher_string={}", self.cipher())?;
        write!(out, ",key_size={}", layout.size_bytes)?;
        write!(out, ",key_parts={}", layout.parts)?;
        write!(out, ",key_extra_size={}", layout.extra_size_bytes)?;
        write!(out, ",key_mac_size={};", layout.mac_size_bytes)
    }
}

/// Parses a number that consists of digits only. [`FromStr`] accepts a plus sign, C does not.
pub(crate) fn decimal<N: FromStr>(arg: &str) -> Option<N> {
    if arg.bytes().all(|byte| byte.is_ascii_digit()) {
        arg.parse().ok()
    } else {
        None
    }
}

/// Helpers for the test suites of this module and others.
#[cfg(kscale_kunit)]
pub(crate) mod testing {
    use super::*;

    /// Returns the parameters of a line without an IV offset.
    pub(crate) fn config(options: Options, key_layout: KeyLayout) -> Result<Config> {
        Ok(Config {
            cipher: CString::try_from_fmt(fmt!("aes-xts-plain64"))?,
            key_layout,
            iv_offset: 0,
            start: 2,
            options,
            tuple: TupleLayout::default(),
        })
    }

    /// A buffer that text is written to.
    pub(crate) struct Text(KVec<u8>);

    impl Text {
        pub(crate) fn new() -> Self {
            Self(KVec::new())
        }

        pub(crate) fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    impl Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0
                .extend_from_slice(text.as_bytes(), GFP_KERNEL)
                .map_err(|_| fmt::Error)
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_table)]
mod tests {
    use super::{
        testing::{
            config,
            Text, //
        },
        *, //
    };
    use core::num::NonZeroU32;

    fn key(arg: &[u8]) -> Result<SecretBytes> {
        Ok(KeyArg::parse(arg).ok_or(ENOENT)?.fetch()?.0)
    }

    #[test]
    fn keys_in_digits() -> Result {
        assert_eq!(key(b"-")?.as_bytes(), &[]);
        assert_eq!(key(b"00ff")?.as_bytes(), &[0x00, 0xff]);
        assert_eq!(key(b"00f")?.as_bytes(), &[0x00]);
        assert_eq!(KeyArg::parse(b"00f").ok_or(EINVAL)?.size_bytes(), 1);
        for arg in [&b""[..], b"a", b"zz", b"0x12"] {
            assert_eq!(key(arg).err(), Some(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn keys_in_keyrings() -> Result {
        // The length is invalid.
        for arg in [
            &b":"[..],
            b":32",
            b"::logon:name",
            b":x:logon:name",
            b":+1:logon:name",
            b":32x:logon:name",
            b":2147483648:logon:name",
            b":4294967328:logon:name",
        ] {
            assert_eq!(key(arg).err(), Some(ENOENT));
        }
        if !cfg!(CONFIG_KEYS) {
            assert_eq!(key(b":32:logon:rcrypt:none").err(), Some(ENOENT));
            return Ok(());
        }
        let name = KeyArg::parse(b":32:logon:rcrypt:none").ok_or(EINVAL)?;
        assert_eq!(name.size_bytes(), 32);
        // The rest of the argument is invalid.
        for arg in [
            &b":32:"[..],
            b":32:logon",
            b":32:logon:",
            b":32::name",
            b":32:LOGON:name",
            b":32:keyring:name",
            b":32:logon:na me",
            b":32:logon:name\n",
            b":32:user:\xa0",
            // The second byte of a letter is a space for C.
            b":32:user:\xc3\xa0",
            b":32:user:\xff",
            b":0:user:rcrypt_none",
        ] {
            assert_eq!(key(arg).err(), Some(EINVAL));
        }
        for arg in [&b":32:logon:rcrypt:none"[..], b":32:user:rcrypt_none"] {
            assert_eq!(key(arg).err(), Some(ENOKEY));
        }
        Ok(())
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
        // The offset is in units of 512 bytes in any case.
        let iv_counts_large = Options {
            iv_large_sectors: true,
            ..large
        };
        assert_eq!(iv_offset(c"8", &iv_counts_large).ok(), Some(8));
        assert!(iv_offset(c"1", &iv_counts_large).is_err());
        assert_eq!(start(c"18446744073709551615").ok(), Some(u64::MAX));
        for arg in [c"", c"-1", c"+1", c"1s", c"0x10", c"18446744073709551616"] {
            assert!(start(arg).is_err());
            assert!(iv_offset(arg, &default).is_err());
        }
    }

    #[test]
    fn line_is_printed_as_dm_crypt_does() -> Result {
        let digits =
            |key: &[u8]| -> Result<KeyText> { Ok(KeyText::Digits(SecretBytes::new(key)?)) };
        let name = CString::try_from_fmt(fmt!("logon:rcrypt:disk"))?;

        for (key, size_bytes, options, expected) in [
            (digits(&[])?, 0, &[][..], &b"aes-xts-plain64 - 1 7:0 2"[..]),
            (
                digits(&[0x0a, 0xf0])?,
                2,
                &[c"1", c"sector_size:4096"],
                b"aes-xts-plain64 0af0 1 7:0 2 1 sector_size:4096",
            ),
            (
                KeyText::Name(name),
                32,
                &[c"1", c"allow_discards"],
                b"aes-xts-plain64 :32:logon:rcrypt:disk 1 7:0 2 1 allow_discards",
            ),
            (KeyText::Wiped, 0, &[], b"aes-xts-plain64 - 1 7:0 2"),
            (KeyText::Wiped, 3, &[], b"aes-xts-plain64 000000 1 7:0 2"),
        ] {
            let mut text = Text::new();
            let options = Options::parse(options.iter().copied(), 2048).map_err(|e| e.error())?;
            let key_layout = KeyLayout {
                size_bytes,
                ..KeyLayout::default()
            };
            let line = Config {
                iv_offset: 1,
                ..config(options, key_layout)?
            };

            line.write(&key, "7:0", &mut text).map_err(|_| ENOMEM)?;
            assert!(text.bytes() == expected);
        }
        Ok(())
    }

    #[test]
    fn ima_data_is_that_of_dm_crypt() -> Result {
        let mut options_text = Text::new();
        let mut text = Text::new();
        let layout = KeyLayout {
            size_bytes: 96,
            parts: 2,
            extra_size_bytes: 16,
            mac_size_bytes: 32,
        };
        let options = Options::DEFAULT;

        options.write_ima(&mut options_text).map_err(|_| ENOMEM)?;
        config(options, layout)?
            .write_ima(&mut text)
            .map_err(|_| ENOMEM)?;
        let rest = text.bytes().strip_prefix(options_text.bytes());
        assert!(
            rest == Some(
                b",cipher_string=aes-xts-plain64,key_size=96,key_parts=2,key_extra_size=16,\
                  key_mac_size=32;"
            )
        );
        Ok(())
    }
}
