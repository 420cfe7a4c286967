// SPDX-License-Identifier: GPL-2.0

//! Arguments of table lines and messages, and the error of a refused line.

use kernel::{
    num::casts::IntoSafeCast,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    ops::RangeInclusive,
    ptr::NonNull, //
};

/// The error of a refused table line: an error code, and a message for the kernel log.
pub struct CtrError {
    message: Option<&'static CStr>,
    error: Error,
}

impl CtrError {
    /// Returns an error with [`EINVAL`] and `message`.
    ///
    /// Context: Any context. Never sleeps.
    pub const fn invalid(message: &'static CStr) -> Self {
        Self::new(message, EINVAL)
    }

    /// Returns an error with `error` and `message`.
    ///
    /// Context: Any context. Never sleeps.
    pub const fn new(message: &'static CStr, error: Error) -> Self {
        Self {
            message: Some(message),
            error,
        }
    }

    /// Returns the error code.
    ///
    /// Context: Any context. Never sleeps.
    pub fn error(&self) -> Error {
        self.error
    }

    /// Returns the message.
    ///
    /// Context: Any context. Never sleeps.
    pub fn message(&self) -> Option<&'static CStr> {
        self.message
    }
}

impl<E: Into<Error>> From<E> for CtrError {
    fn from(error: E) -> Self {
        Self {
            message: None,
            error: error.into(),
        }
    }
}

/// The arguments of a table line or of a message.
///
/// # Invariants
///
/// `argv` points to `argc` pointers to NUL-terminated strings. For `'a`, all of them are valid and
/// exclusively borrowed. If `argc` is 0, `argv` may have any value.
pub struct Args<'a> {
    argv: *mut *mut kernel::ffi::c_char,
    argc: usize,
    _strings: PhantomData<&'a mut CStr>,
}

impl<'a> Args<'a> {
    /// Wraps the arguments that device mapper passes.
    ///
    /// # Safety
    ///
    /// `argc` and `argv` must be the arguments of a call of `ctr` or `message`, and `'a` must not
    /// outlive this call.
    pub(super) unsafe fn new(
        argc: kernel::ffi::c_uint,
        argv: *mut *mut kernel::ffi::c_char,
    ) -> Self {
        // INVARIANT: `dm_split_args()` in `drivers/md/dm-table.c` makes such an array, in a buffer
        // of this call; `argv` may be NULL if `argc` is 0.
        Self {
            argv,
            argc: argc.into_safe_cast(),
            _strings: PhantomData,
        }
    }

    /// Returns the next argument, or fails with the message `missing`.
    ///
    /// Context: Any context. Never sleeps.
    pub fn required(&mut self, missing: &'static CStr) -> Result<&'a CStr, CtrError> {
        self.next().ok_or(CtrError::invalid(missing))
    }

    /// Returns the next argument as a decimal number, or fails with the message `invalid`.
    ///
    /// The argument consists of digits, as for `sscanf()` in `linear_ctr()`: a sign is refused.
    /// Unlike there, a number that `N` cannot hold is refused, too. `kstrtoull()` in other targets
    /// also refuses such numbers, and accepts a plus sign.
    ///
    /// The argument is not logged: if words are missing, it may be a key.
    ///
    /// Context: Any context. Never sleeps.
    pub fn parsed<N: core::str::FromStr>(&mut self, invalid: &'static CStr) -> Result<N, CtrError> {
        let arg = self.required(invalid)?;
        let number = arg
            .to_str()
            .ok()
            // `from_str` accepts a plus sign.
            .filter(|arg| arg.starts_with(|first: char| first.is_ascii_digit()))
            .and_then(|arg| arg.parse().ok());
        number.ok_or(CtrError::invalid(invalid))
    }

    /// Returns the next argument as a decimal number in `range`, or fails with the message
    /// `invalid`.
    ///
    /// The argument is parsed as by [`parsed()`](Self::parsed).
    ///
    /// Context: Any context. Never sleeps. C: `dm_read_arg()` in `drivers/md/dm-table.c`.
    pub fn parsed_in<N: core::str::FromStr + PartialOrd>(
        &mut self,
        range: RangeInclusive<N>,
        invalid: &'static CStr,
    ) -> Result<N, CtrError> {
        let number = self.parsed(invalid)?;
        match range.contains(&number) {
            true => Ok(number),
            false => Err(CtrError::invalid(invalid)),
        }
    }

    /// Returns the value that `choices` has for the next argument, or fails with the message
    /// `invalid`.
    ///
    /// The argument is not logged, as in [`parsed()`](Self::parsed).
    ///
    /// Context: Any context. Never sleeps.
    pub fn one_of<V: Copy>(
        &mut self,
        choices: &[(&str, V)],
        invalid: &'static CStr,
    ) -> Result<V, CtrError> {
        let arg = self.required(invalid)?.to_bytes();
        let choice = choices.iter().find(|(word, _)| word.as_bytes() == arg);
        choice
            .map(|&(_, value)| value)
            .ok_or(CtrError::invalid(invalid))
    }

    /// Returns the next argument. Dropping the result overwrites the argument with `0`s.
    ///
    /// Context: Any context. Never sleeps.
    pub fn secret(&mut self, missing: &'static CStr) -> Result<SecretArg<'a>, CtrError> {
        let arg = self.next_raw().ok_or(CtrError::invalid(missing))?;
        // SAFETY: `arg` is NUL-terminated, by the type invariants.
        let len = unsafe { CStr::from_char_ptr(arg.as_ptr()) }
            .to_bytes()
            .len();
        // SAFETY: `arg` has `len` bytes before the NUL. By the type invariants they are valid for
        // `'a` and exclusively borrowed; `next_raw()` returns each argument once.
        let bytes = unsafe { core::slice::from_raw_parts_mut(arg.as_ptr().cast::<u8>(), len) };
        Ok(SecretArg(bytes))
    }

    /// Checks that no arguments are left, or fails with the message `too_many`.
    ///
    /// Context: Any context. Never sleeps.
    pub fn finish(&self, too_many: &'static CStr) -> Result<(), CtrError> {
        match self.argc {
            0 => Ok(()),
            _ => Err(CtrError::invalid(too_many)),
        }
    }

    /// Returns the number of arguments left.
    ///
    /// Context: Any context. Never sleeps.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.argc
    }

    fn next_raw(&mut self) -> Option<NonNull<kernel::ffi::c_char>> {
        self.argc = self.argc.checked_sub(1)?;
        // SAFETY: There was an argument left, so `argv` points to one, by the type invariants.
        let arg = unsafe { *self.argv };
        // SAFETY: As above, so the next pointer is inside the array or at its end.
        // INVARIANT: `argc` and `argv` both advance by one argument.
        self.argv = unsafe { self.argv.add(1) };
        NonNull::new(arg)
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        let arg = self.next_raw()?;
        // SAFETY: `arg` is NUL-terminated and valid for `'a`, by the type invariants. `next_raw()`
        // returns each argument once, so nothing writes to it.
        Some(unsafe { CStr::from_char_ptr(arg.as_ptr()) })
    }
}

/// An argument that holds a key. Its place in the table line is overwritten on drop.
pub struct SecretArg<'a>(&'a mut [u8]);

impl SecretArg<'_> {
    /// Returns the argument, without the terminating NUL.
    ///
    /// Context: Any context. Never sleeps.
    pub fn as_bytes(&self) -> &[u8] {
        self.0
    }
}

impl Drop for SecretArg<'_> {
    fn drop(&mut self) {
        for byte in self.0.iter_mut() {
            // As in dm-crypt, so that the length remains visible.
            //
            // SAFETY: `byte` is a reference, so it is valid for writes.
            unsafe { core::ptr::write_volatile(byte, b'0') };
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_args)]
mod tests {
    use super::*;

    use kernel::{
        ffi::c_char,
        str::CString, //
    };

    const MISSING: &CStr = c"missing";
    const INVALID: &CStr = c"kscale_dm_args: invalid, as it should be";

    /// Calls `func` with the words of `line` as arguments, and returns the words after the call.
    fn with_args<R>(line: &[&str], func: impl FnOnce(Args<'_>) -> R) -> Result<(R, KVec<CString>)> {
        let mut words = KVec::new();
        for word in line {
            words.push(CString::try_from_fmt(fmt!("{}", *word))?, GFP_KERNEL)?;
        }
        let mut argv = KVec::<*mut c_char>::new();
        for word in &mut words {
            argv.push(
                core::ptr::from_ref::<CStr>(word)
                    .cast::<c_char>()
                    .cast_mut(),
                GFP_KERNEL,
            )?;
        }
        // SAFETY: `argv` has `line.len()` pointers to NUL-terminated strings, which nothing else
        // uses until `func` returned.
        let args = unsafe { Args::new(line.len() as kernel::ffi::c_uint, argv.as_mut_ptr()) };
        let result = func(args);
        Ok((result, words))
    }

    #[test]
    fn arguments_come_in_order_and_end() -> Result {
        let (seen, _) = with_args(&["a", "", "c"], |mut args| {
            let first = args.next().map(CStr::to_bytes) == Some(b"a");
            let second = args.next().map(CStr::to_bytes) == Some(b"");
            let third = args.len() == 1 && args.next().map(CStr::to_bytes) == Some(b"c");
            let end = args.next().is_none() && args.next().is_none() && args.len() == 0;
            (first, second, third, end)
        })?;
        assert_eq!(seen, (true, true, true, true));
        Ok(())
    }

    #[test]
    fn null_argv_means_no_arguments() {
        // SAFETY: With no arguments the pointer may have any value.
        let mut args = unsafe { Args::new(0, core::ptr::null_mut()) };
        assert!(args.next().is_none());
        assert!(args.finish(INVALID).is_ok());
        assert!(args
            .required(MISSING)
            .is_err_and(|e| e.message() == Some(MISSING)));
    }

    #[test]
    fn only_decimal_numbers_are_parsed() -> Result {
        for (word, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("+1", None),
            ("-1", None),
            ("1x", None),
            ("0x1", None),
            ("", None),
        ] {
            let (parsed, _) = with_args(&[word], |mut args| args.parsed::<u64>(INVALID).ok())?;
            assert_eq!(parsed, number);
        }
        Ok(())
    }

    #[test]
    fn only_numbers_of_the_range_are_accepted() -> Result {
        for (words, number) in [
            (&["1"][..], None),
            (&["2"], Some(2)),
            (&["5"], Some(5)),
            (&["6"], None),
            (&["+3"], None),
            (&[], None),
        ] {
            let (found, _) = with_args(words, |mut args| args.parsed_in::<u32>(2..=5, INVALID))?;
            match (found, number) {
                (Ok(found), Some(number)) => assert_eq!(found, number),
                (Err(error), None) => assert!(error.message() == Some(INVALID)),
                _ => return Err(EINVAL),
            }
        }
        // The smallest and the largest range.
        for (word, range, number) in [
            ("0", 0..=0, Some(0)),
            ("1", 0..=0, None),
            ("18446744073709551615", 0..=u64::MAX, Some(u64::MAX)),
            ("18446744073709551616", 0..=u64::MAX, None),
            ("1", core::ops::RangeInclusive::new(2, 0), None),
        ] {
            let (found, _) = with_args(&[word], |mut args| args.parsed_in(range, INVALID).ok())?;
            assert_eq!(found, number);
        }
        Ok(())
    }

    #[test]
    fn only_words_of_the_choices_are_accepted() -> Result {
        let choices = [("off", 0), ("on", 1), ("online", 2)];
        for (words, value) in [
            (&["on"][..], Some(1)),
            (&["online"], Some(2)),
            (&["off", "on"], Some(0)),
            (&["ON"], None),
            (&["o"], None),
            (&[""], None),
            (&[], None),
        ] {
            let (found, _) = with_args(words, |mut args| args.one_of(&choices, INVALID))?;
            match (found, value) {
                (Ok(found), Some(value)) => assert_eq!(found, value),
                (Err(error), None) => assert!(error.message() == Some(INVALID)),
                _ => return Err(EINVAL),
            }
        }
        Ok(())
    }

    #[test]
    fn excess_arguments_are_rejected() -> Result {
        let (left, _) = with_args(&["a"], |args| args.finish(INVALID).is_err())?;
        assert!(left);
        Ok(())
    }

    #[test]
    fn a_secret_is_overwritten_in_place() -> Result {
        let (seen, words) = with_args(&["s3cret", "open"], |mut args| {
            let seen = args
                .secret(MISSING)
                .is_ok_and(|secret| secret.as_bytes() == b"s3cret");
            seen && args.next().map(CStr::to_bytes) == Some(b"open")
        })?;
        assert!(seen);
        assert!(words
            .first()
            .is_some_and(|word| word.to_bytes() == b"000000"));
        assert!(words.get(1).is_some_and(|word| word.to_bytes() == b"open"));
        Ok(())
    }

    #[test]
    fn a_long_secret_is_overwritten() -> Result {
        let secret = KVec::from_elem(b'a', 1 << 12, GFP_KERNEL)?;
        let secret = core::str::from_utf8(&secret).map_err(|_| EINVAL)?;

        let (len, words) = with_args(&[secret], |mut args| {
            args.secret(MISSING)
                .map_or(0, |secret| secret.as_bytes().len())
        })?;
        let left = words.first().ok_or(EINVAL)?.to_bytes();
        assert_eq!((len, left.len()), (secret.len(), secret.len()));
        assert!(left.iter().all(|&byte| byte == b'0'));
        Ok(())
    }
}
