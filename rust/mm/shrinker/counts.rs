// SPDX-License-Identifier: GPL-2.0

//! The return values of the callbacks.

use kernel::{
    bindings,
    ffi::c_ulong, //
};

/// The number of freeable objects.
///
/// # Invariants
///
/// The value is [`Self::EMPTY`], or at most [`Self::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Count(c_ulong);

impl Count {
    /// There are no objects (`SHRINK_EMPTY`).
    ///
    /// The kernel does not call a cgroup-aware shrinker for this cgroup and node again until an
    /// object of the cgroup and node is added to a [list](crate::mm::list_lru) of the shrinker.
    // CAST: The value is -2, as in C.
    // INVARIANT: The value is `EMPTY`.
    pub const EMPTY: Self = Self(bindings::SHRINK_EMPTY as c_ulong);

    /// The number is unknown, or too small for a scan (0). The kernel calls the shrinker again.
    // INVARIANT: 0 is less than `MAX`.
    pub const UNKNOWN: Self = Self(0);

    /// The maximum count. The kernel doubles the count.
    pub const MAX: usize = isize::MAX as usize / 2;

    /// Creates a count of `objects`, limited to [`Self::MAX`]. 0 is [`Self::EMPTY`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub const fn new(objects: usize) -> Self {
        if objects == 0 {
            return Self::EMPTY;
        }
        // INVARIANT: At most `MAX`.
        Self(if objects > Self::MAX {
            Self::MAX
        } else {
            objects
        })
    }

    /// Returns the value for C.
    #[inline]
    pub(crate) const fn into_raw(self) -> c_ulong {
        self.0
    }
}

/// The result of a scan.
///
/// # Invariants
///
/// - `freed` is `SHRINK_STOP`, or at most `isize::MAX`.
/// - `scanned` is [`None`], or in `1..=isize::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    freed: c_ulong,
    scanned: Option<c_ulong>,
}

impl Scan {
    /// No progress is possible now (`SHRINK_STOP`). The remaining objects are deferred.
    ///
    /// Use it if a lock is contended or must not be taken. Objects freed before are not reported.
    pub const STOP: Self = Self {
        // CAST: The value is -1, as in C.
        // INVARIANT: The value is `SHRINK_STOP`.
        freed: bindings::SHRINK_STOP as c_ulong,
        scanned: None,
    };

    /// `objects` of the [`nr_to_scan()`](super::ScanControl::nr_to_scan) objects were freed.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub const fn freed(objects: usize) -> Self {
        // INVARIANT: At most `isize::MAX`.
        Self {
            freed: clamp(objects),
            scanned: None,
        }
    }

    /// `objects` of `scanned` objects were freed. `scanned` may differ from the requested number.
    ///
    /// Returns [`Self::STOP`] if `scanned` is 0: the kernel would call the shrinker forever.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub const fn freed_of(objects: usize, scanned: usize) -> Self {
        if scanned == 0 {
            return Self::STOP;
        }
        // INVARIANT: Both are at most `isize::MAX`, and `scanned` is not 0.
        Self {
            freed: clamp(objects),
            scanned: Some(clamp(scanned)),
        }
    }

    /// Returns the return value for C, and the new value of `nr_scanned` if it changes.
    #[inline]
    pub(super) const fn into_raw(self) -> (c_ulong, Option<c_ulong>) {
        (self.freed, self.scanned)
    }
}

/// Limits `objects` to the maximum that the kernel can subtract.
const fn clamp(objects: usize) -> c_ulong {
    // CAST: The value is not negative.
    const MAX: usize = isize::MAX as usize;

    if objects > MAX {
        MAX
    } else {
        objects
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_shrinker_answers)]
mod tests {
    use super::*;

    #[test]
    fn counts_match_c() {
        // Objects, value for C.
        const ROWS: [(usize, c_ulong); 6] = [
            (0, c_ulong::MAX - 1),
            (1, 1),
            (Count::MAX, c_ulong::MAX / 4),
            (Count::MAX + 1, c_ulong::MAX / 4),
            (usize::MAX - 1, c_ulong::MAX / 4),
            (usize::MAX, c_ulong::MAX / 4),
        ];

        for (objects, raw) in ROWS {
            assert_eq!(Count::new(objects).into_raw(), raw);
        }
        assert_eq!(Count::EMPTY.into_raw(), c_ulong::MAX - 1);
        assert_eq!(Count::UNKNOWN.into_raw(), 0);
    }

    #[test]
    fn scans_match_c() {
        const MOST: c_ulong = c_ulong::MAX / 2;
        // Freed, scanned, return value for C, `nr_scanned` for C.
        const ROWS: [(usize, usize, c_ulong, Option<c_ulong>); 8] = [
            (0, 1, 0, Some(1)),
            (3, 5, 3, Some(5)),
            // The caller may report more objects than were requested or scanned.
            (5, 3, 5, Some(3)),
            (0, 0, c_ulong::MAX, None),
            (1, 0, c_ulong::MAX, None),
            (usize::MAX, 1, MOST, Some(1)),
            (usize::MAX - 1, 1, MOST, Some(1)),
            (1, usize::MAX, 1, Some(MOST)),
        ];

        for (freed, scanned, raw, raw_scanned) in ROWS {
            assert_eq!(
                Scan::freed_of(freed, scanned).into_raw(),
                (raw, raw_scanned)
            );
        }
        assert_eq!(Scan::STOP.into_raw(), (c_ulong::MAX, None));
        assert_eq!(Scan::freed(0).into_raw(), (0, None));
        assert_eq!(Scan::freed(7).into_raw(), (7, None));
        assert_eq!(Scan::freed(usize::MAX).into_raw(), (MOST, None));
    }
}
