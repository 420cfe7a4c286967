// SPDX-License-Identifier: GPL-2.0

//! The cipher argument of the table line: cipher, chaining mode and IV mode.
//!
//! There are two formats. Both consist of an algorithm of the crypto API and an IV mode.

use kernel::{
    fmt,
    prelude::*,
    str::CString, //
};

use kscale::{
    block::dm::CtrError,
    crypto::aead, //
};

use crate::table::decimal;

/// Maximum length of an algorithm name including its NUL, in bytes.
const CRYPTO_MAX_ALG_NAME: usize = 128;

/// The number of keys of Loop-AES in the `capi:` format; the other format specifies the number.
const LMK_KEYS: usize = 64;

/// The parsed cipher argument.
pub(crate) struct CipherSpec<'a> {
    /// The algorithm name in the crypto API, for example `xts(aes)`.
    pub(crate) api_name: CString,
    /// The name of the IV mode, if the argument has one.
    pub(crate) iv_mode: Option<&'a str>,
    /// Number of cipher keys of equal length in the key; a power of two.
    pub(crate) n_keys: usize,
    /// Digest size of `authenc(<digest>,<cipher>)` in bytes; [`None`] for other ciphers.
    pub(crate) digest_size: Option<u32>,
}

impl<'a> CipherSpec<'a> {
    /// Parses the cipher argument in either format. Ciphers that authenticate (`is_aead`) need the
    /// `capi:` format.
    ///
    /// For `authenc()` this looks up the digest and may load a module.
    pub(crate) fn parse(arg: &'a CStr, is_aead: bool) -> Result<Self, CtrError> {
        const BAD: CtrError = CtrError::invalid(c"Bad cipher specification");
        let arg = arg.to_str().map_err(|_| BAD)?;

        match arg.strip_prefix("capi:") {
            Some(spec) => Self::parse_capi(spec, is_aead),
            None if is_aead => Err(BAD),
            None => Self::parse_legacy(arg),
        }
    }

    /// Parses `<crypto API name>-<iv mode>[:<iv options>]`.
    fn parse_capi(spec: &'a str, is_aead: bool) -> Result<Self, CtrError> {
        const TOO_LONG: CtrError = CtrError::new(c"Cannot allocate cipher string", ENOMEM);

        // Split from the end: the IV options may contain a '-', and a real name contains no ':'.
        let (spec, iv_opts) = split_last(spec, ':');
        let (name, iv_mode) = split_last(spec, '-');
        let digest_size = if is_aead {
            authenc_digest_size(name)?
        } else {
            None
        };
        if is_aead && iv_mode == Some("lmk") {
            return Err(CtrError::invalid(c"AEAD transforms not supported for LMK"));
        }
        let api_name = match essiv_digest(iv_mode, iv_opts)? {
            Some(digest) => api_name(fmt!("essiv({name},{digest})"), Some(TOO_LONG))?,
            None => api_name(fmt!("{name}"), None)?,
        };

        Ok(Self {
            api_name,
            iv_mode,
            n_keys: if iv_mode == Some("lmk") { LMK_KEYS } else { 1 },
            digest_size,
        })
    }

    /// Parses `<cipher>[:<number of keys>]-<chain mode>-<iv mode>[:<iv options>]`.
    fn parse_legacy(spec: &'a str) -> Result<Self, CtrError> {
        const TOO_LONG: CtrError = CtrError::new(c"Cannot allocate cipher strings", ENOMEM);

        if spec.contains('(') {
            return Err(CtrError::invalid(c"Bad cipher specification"));
        }

        let (cipher, rest) = split_first(spec, '-');
        let (cipher, n_keys) = split_first(cipher, ':');
        let n_keys = match n_keys {
            None => 1,
            Some(n_keys) => decimal::<u32>(n_keys)
                .filter(|n_keys| n_keys.is_power_of_two())
                .ok_or(CtrError::invalid(c"Bad cipher key count specification"))?,
        };

        let (mut chain_mode, rest) = split_optional(rest, '-');
        let (mut iv_mode, iv_opts) = split_optional(rest, ':');
        // The first version of dm-crypt had a single mode.
        if chain_mode.is_none() || (chain_mode == Some("plain") && iv_mode.is_none()) {
            chain_mode = Some("cbc");
            iv_mode = Some("plain");
        }
        let chain_mode = chain_mode.unwrap_or_default();
        if chain_mode != "ecb" && iv_mode.is_none() {
            return Err(CtrError::invalid(c"IV mechanism required"));
        }

        let api_name = match essiv_digest(iv_mode, iv_opts)? {
            Some(digest) => api_name(
                fmt!("essiv({chain_mode}({cipher}),{digest})"),
                Some(TOO_LONG),
            )?,
            None => api_name(fmt!("{chain_mode}({cipher})"), Some(TOO_LONG))?,
        };

        Ok(Self {
            api_name,
            iv_mode,
            // CAST: From 32 to 64 bits.
            n_keys: n_keys as usize,
            digest_size: None,
        })
    }
}

/// Returns the digest size of `authenc(<digest>,<cipher>)`, or [`None`] for other ciphers.
fn authenc_digest_size(name: &str) -> Result<Option<u32>, CtrError> {
    let bad = |error| CtrError::new(c"Invalid AEAD cipher spec", error);
    let Some(digest) = name.strip_prefix("authenc(") else {
        return Ok(None);
    };
    let (digest, _) = digest.split_once(',').ok_or(bad(EINVAL))?;
    let digest = CString::try_from_fmt(fmt!("{digest}"))?;

    aead::digest_size(&digest).map(Some).map_err(bad)
}

/// Returns the digest of the IV mode `essiv`, or [`None`] for other modes.
fn essiv_digest<'a>(
    iv_mode: Option<&str>,
    iv_opts: Option<&'a str>,
) -> Result<Option<&'a str>, CtrError> {
    if iv_mode != Some("essiv") {
        return Ok(None);
    }
    match iv_opts {
        Some(digest) => Ok(Some(digest)),
        None => Err(CtrError::invalid(
            c"Digest algorithm missing for ESSIV mode",
        )),
    }
}

/// Returns `name` as a C string, or `too_long` if it exceeds `CRYPTO_MAX_ALG_NAME`.
fn api_name(name: fmt::Arguments<'_>, too_long: Option<CtrError>) -> Result<CString, CtrError> {
    let name = CString::try_from_fmt(name)?;

    match too_long {
        Some(error) if name.to_bytes_with_nul().len() > CRYPTO_MAX_ALG_NAME => Err(error),
        _ => Ok(name),
    }
}

/// Splits at the first `delimiter`. The second part is [`None`] without a delimiter.
fn split_first(arg: &str, delimiter: char) -> (&str, Option<&str>) {
    match arg.split_once(delimiter) {
        Some((first, rest)) => (first, Some(rest)),
        None => (arg, None),
    }
}

/// As [`split_first()`], for an optional argument: `strsep()` in C.
fn split_optional(arg: Option<&str>, delimiter: char) -> (Option<&str>, Option<&str>) {
    match arg.map(|arg| split_first(arg, delimiter)) {
        Some((first, rest)) => (Some(first), rest),
        None => (None, None),
    }
}

/// Splits at the last `delimiter`. The second part is [`None`] without a delimiter.
fn split_last(arg: &str, delimiter: char) -> (&str, Option<&str>) {
    match arg.rsplit_once(delimiter) {
        Some((rest, last)) => (rest, Some(last)),
        None => (arg, None),
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_cipher_spec)]
mod tests {
    use super::*;

    /// Returns whether `arg` is rejected with `message`.
    fn cipher_is_refused(arg: &CStr, message: &CStr) -> bool {
        CipherSpec::parse(arg, false)
            .err()
            .and_then(|e| e.message())
            == Some(message)
    }

    #[test]
    fn ciphers() -> Result {
        for (arg, api_name, iv_mode, n_keys) in [
            (c"aes-xts-plain64", c"xts(aes)", Some("plain64"), 1),
            (c"capi:xts(aes)-plain64", c"xts(aes)", Some("plain64"), 1),
            (c"aes", c"cbc(aes)", Some("plain"), 1),
            (c"aes-plain", c"cbc(aes)", Some("plain"), 1),
            (c"aes-ecb", c"ecb(aes)", None, 1),
            (c"aes-ecb-null", c"ecb(aes)", Some("null"), 1),
            (c"aes:4-cbc-plain64", c"cbc(aes)", Some("plain64"), 4),
            (c"aes:1", c"cbc(aes)", Some("plain"), 1),
            (
                c"aes-cbc-essiv:sha256",
                c"essiv(cbc(aes),sha256)",
                Some("essiv"),
                1,
            ),
            (
                c"capi:cbc(aes)-essiv:sha3-256",
                c"essiv(cbc(aes),sha3-256)",
                Some("essiv"),
                1,
            ),
            (c"capi:ecb(aes)", c"ecb(aes)", None, 1),
            (
                c"capi:xts-aes-aesni-plain64",
                c"xts-aes-aesni",
                Some("plain64"),
                1,
            ),
            (c"aes:64-cbc-lmk", c"cbc(aes)", Some("lmk"), 64),
            (c"aes-cbc-lmk", c"cbc(aes)", Some("lmk"), 1),
            (c"capi:cbc(aes)-lmk", c"cbc(aes)", Some("lmk"), 64),
            (c"aes-xts-plain64:ignored", c"xts(aes)", Some("plain64"), 1),
        ] {
            let spec = CipherSpec::parse(arg, false).map_err(|e| e.error())?;

            assert_eq!(&*spec.api_name, api_name);
            assert_eq!(spec.iv_mode, iv_mode);
            assert_eq!(spec.n_keys, n_keys);
        }
        Ok(())
    }

    #[test]
    fn bad_ciphers() {
        for (arg, message) in [
            (c"xts(aes)-plain64", c"Bad cipher specification"),
            (c"aes\xff-xts-plain64", c"Bad cipher specification"),
            (c"aes:-xts-plain64", c"Bad cipher key count specification"),
            (c"aes:0-xts-plain64", c"Bad cipher key count specification"),
            (c"aes:3-xts-plain64", c"Bad cipher key count specification"),
            (c"aes:2x-xts-plain64", c"Bad cipher key count specification"),
            (c"aes:+2-xts-plain64", c"Bad cipher key count specification"),
            (
                c"aes:4294967297-cbc-plain",
                c"Bad cipher key count specification",
            ),
            (c"aes-xts", c"IV mechanism required"),
            (c"aes-", c"IV mechanism required"),
            (c"aes-cbc-essiv", c"Digest algorithm missing for ESSIV mode"),
            (
                c"capi:cbc(aes)-essiv",
                c"Digest algorithm missing for ESSIV mode",
            ),
        ] {
            assert!(cipher_is_refused(arg, message));
        }
    }

    #[test]
    fn ciphers_that_authenticate() -> Result {
        let parse = |arg| CipherSpec::parse(arg, true);
        let refused = |arg, message: &CStr, error: Error| {
            parse(arg)
                .err()
                .is_some_and(|e| e.message() == Some(message) && e.error() == error)
        };

        let authenc =
            parse(c"capi:authenc(hmac(sha256),xts(aes))-random").map_err(|e| e.error())?;
        assert_eq!(&*authenc.api_name, c"authenc(hmac(sha256),xts(aes))");
        assert_eq!(authenc.digest_size, Some(32));
        let other = parse(c"capi:rfc7539(chacha20,poly1305)-random").map_err(|e| e.error())?;
        assert_eq!(other.digest_size, None);

        const BAD: &CStr = c"Bad cipher specification";
        const AUTHENC: &CStr = c"Invalid AEAD cipher spec";
        const LMK: &CStr = c"AEAD transforms not supported for LMK";
        assert!(refused(c"aes-xts-random", BAD, EINVAL));
        // This error precedes the other errors in the argument.
        assert!(refused(c"aes:3-cbc-essiv", BAD, EINVAL));
        assert!(refused(c"capi:authenc(hmac(sha256)-essiv", AUTHENC, EINVAL));
        assert!(refused(
            c"capi:authenc(hmac(md6),xts(aes))-lmk",
            AUTHENC,
            ENOENT
        ));
        assert!(refused(c"capi:gcm(aes)-lmk", LMK, EINVAL));
        Ok(())
    }

    #[test]
    fn long_names_are_refused() -> Result {
        let long = [b'a'; CRYPTO_MAX_ALG_NAME];
        let long = core::str::from_utf8(&long).map_err(|_| EINVAL)?;
        let legacy = CString::try_from_fmt(fmt!("{long}-cbc-plain"))?;
        let capi = CString::try_from_fmt(fmt!("capi:cbc(aes)-essiv:{long}"))?;

        assert!(cipher_is_refused(
            &legacy,
            c"Cannot allocate cipher strings"
        ));
        assert!(cipher_is_refused(&capi, c"Cannot allocate cipher string"));
        // The crypto API refuses this name.
        let other = CString::try_from_fmt(fmt!("capi:{long}-plain64"))?;
        assert!(CipherSpec::parse(&other, false).is_ok());
        Ok(())
    }
}
