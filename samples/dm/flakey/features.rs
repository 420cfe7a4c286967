// SPDX-License-Identifier: GPL-2.0

//! The features of a table line: what happens to bios while the device is down.

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*, //
};

use kscale::block::dm;

use crate::corruption::{
    probability,
    CorruptByte, //
};

/// The features of a table line.
#[derive(Default)]
pub(crate) struct Features {
    pub(crate) error_reads: bool,
    pub(crate) drop_writes: bool,
    pub(crate) error_writes: bool,
    pub(crate) byte: Option<CorruptByte>,
    /// Probabilities in billionths.
    pub(crate) random_read: u32,
    pub(crate) random_write: u32,
}

/// Sets a feature that is not set yet.
fn set(feature: &mut bool, duplicated: &'static CStr) -> Result<(), dm::CtrError> {
    match core::mem::replace(feature, true) {
        false => Ok(()),
        true => Err(dm::CtrError::invalid(duplicated)),
    }
}

impl Features {
    /// Parses the number of words, and the words.
    pub(crate) fn parse(args: &mut dm::Args<'_>) -> Result<Self, dm::CtrError> {
        let mut this = Self::default();
        let mut n_words = 0;
        if let Some(n_left) = args.len().checked_sub(1) {
            n_words = args.parsed_in(0..=n_left.min(11), c"Invalid number of feature args")?;
        }
        // The line may have further words, which are ignored as in C.
        let end = args.len() - n_words;
        while args.len() > end {
            this.parse_feature(args, end)?;
        }
        this.check()?;
        if this.is_empty() {
            this.error_reads = true;
            this.error_writes = true;
        }
        Ok(this)
    }

    /// Parses a feature. The words of features end where `end` words are left.
    fn parse_feature(&mut self, args: &mut dm::Args<'_>, end: usize) -> Result<(), dm::CtrError> {
        let invalid = dm::CtrError::invalid;
        let name = args.required(c"Insufficient feature arguments")?.to_bytes();
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let left = args.len() - end;

        if is(b"error_reads") {
            set(&mut self.error_reads, c"Feature error_reads duplicated")
        } else if is(b"drop_writes") {
            set(&mut self.drop_writes, c"Feature drop_writes duplicated")?;
            match self.error_writes {
                false => Ok(()),
                true => Err(invalid(
                    c"Feature drop_writes conflicts with feature error_writes",
                )),
            }
        } else if is(b"error_writes") {
            set(&mut self.error_writes, c"Feature error_writes duplicated")?;
            match self.drop_writes {
                false => Ok(()),
                true => Err(invalid(
                    c"Feature error_writes conflicts with feature drop_writes",
                )),
            }
        } else if is(b"corrupt_bio_byte") {
            if self.byte.is_some() {
                return Err(invalid(c"Feature corrupt_bio_byte duplicated"));
            }
            if left < 4 {
                return Err(invalid(c"Feature corrupt_bio_byte requires 4 parameters"));
            }
            self.byte = Some(CorruptByte::parse(args)?);
            Ok(())
        } else if is(b"random_read_corrupt") {
            if self.random_read != 0 {
                return Err(invalid(c"Feature random_read_corrupt duplicated"));
            }
            if left == 0 {
                return Err(invalid(c"Feature random_read_corrupt requires a parameter"));
            }
            self.random_read = probability(args)?;
            Ok(())
        } else if is(b"random_write_corrupt") {
            if self.random_write != 0 {
                return Err(invalid(c"Feature random_write_corrupt duplicated"));
            }
            if left == 0 {
                return Err(invalid(
                    c"Feature random_write_corrupt requires a parameter",
                ));
            }
            self.random_write = probability(args)?;
            Ok(())
        } else {
            Err(invalid(c"Unrecognised flakey feature requested"))
        }
    }

    /// Returns whether writes are corrupted.
    pub(crate) fn corrupts_writes(&self) -> bool {
        self.random_write != 0 || self.byte.is_some_and(|byte| byte.is_write)
    }

    /// Returns whether reads are corrupted.
    fn corrupts_reads(&self) -> bool {
        self.random_read != 0 || self.byte.is_some_and(|byte| !byte.is_write)
    }

    /// Fails if features exclude each other.
    fn check(&self) -> Result<(), dm::CtrError> {
        let invalid = |message| Err(dm::CtrError::invalid(message));

        if self.drop_writes && self.corrupts_writes() {
            invalid(
                c"drop_writes is incompatible with random_write_corrupt or corrupt_bio_byte with the WRITE flag set",
            )
        } else if self.error_writes && self.corrupts_writes() {
            invalid(
                c"error_writes is incompatible with random_write_corrupt or corrupt_bio_byte with the WRITE flag set",
            )
        } else if self.error_reads && self.corrupts_reads() {
            invalid(
                c"error_reads is incompatible with random_read_corrupt or corrupt_bio_byte with the READ flag set",
            )
        } else {
            Ok(())
        }
    }

    fn is_empty(&self) -> bool {
        let errors = self.error_reads || self.drop_writes || self.error_writes;
        !errors && !self.corrupts_reads() && !self.corrupts_writes()
    }

    /// Writes the words again, after their number.
    pub(crate) fn write(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let flags = [
            (self.error_reads, "error_reads"),
            (self.drop_writes, "drop_writes"),
            (self.error_writes, "error_writes"),
        ];
        let randoms = [
            (self.random_read, "random_read_corrupt"),
            (self.random_write, "random_write_corrupt"),
        ];
        let mut n_words = flags.iter().filter(|(is_set, _)| *is_set).count();
        n_words += 5 * usize::from(self.byte.is_some());
        n_words += 2 * randoms.iter().filter(|(random, _)| *random != 0).count();

        write!(out, "{n_words}")?;
        for (_, name) in flags.iter().filter(|(is_set, _)| *is_set) {
            write!(out, " {name}")?;
        }
        if let Some(byte) = self.byte {
            let direction = if byte.is_write { 'w' } else { 'r' };
            let (nth, value, flags) = (byte.nth, byte.value, byte.flags);
            write!(out, " corrupt_bio_byte {nth} {direction} {value} {flags}")?;
        }
        for (random, name) in randoms.iter().filter(|(random, _)| *random != 0) {
            write!(out, " {name} {random}")?;
        }
        Ok(())
    }
}
