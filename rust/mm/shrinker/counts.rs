// SPDX-License-Identifier: GPL-2.0

//! What callbacks answer.

use kernel::{
    bindings,
    ffi::c_ulong, //
};

/// How many objects there are to free.
///
/// # Invariants
///
/// It is [`Self::EMPTY`], or at most [`Self::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Count(c_ulong);

impl Count {
    /// There are none (`SHRINK_EMPTY`).
    ///
    /// Of a shrinker that knows memory cgroups, the kernel does not ask for this cgroup and node
    /// again, until a [list](crate::mm::list_lru) of the shrinker gets an object of theirs.
    // CAST: It is -2, as in C.
    // INVARIANT: As it says.
    pub const EMPTY: Self = Self(bindings::SHRINK_EMPTY as c_ulong);

    /// Cannot tell, or there are too few to bother (0). The kernel will ask again.
    // INVARIANT: It is less.
    pub const UNKNOWN: Self = Self(0);

    /// The most that the kernel, which doubles it, can count.
    pub const MAX: usize = isize::MAX as usize / 2;

    /// Tells that there are `objects`, at most [`Self::MAX`]: [`Self::EMPTY`] if there are none.
    ///
    /// Context: any.
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

    /// Returns the answer as C takes it.
    #[inline]
    pub(crate) const fn into_raw(self) -> c_ulong {
        self.0
    }
}

/// What came of a scan.
///
/// # Invariants
///
/// - `freed` is `SHRINK_STOP`, or at most `isize::MAX`.
/// - `scanned` is not 0, and at most `isize::MAX`, if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    freed: c_ulong,
    scanned: Option<c_ulong>,
}

impl Scan {
    /// No progress can be made now (`SHRINK_STOP`): what is left is deferred.
    ///
    /// For a lock that is taken, or that may not be taken. What was freed before is not reported.
    pub const STOP: Self = Self {
        // CAST: It is -1, as in C.
        // INVARIANT: As it says.
        freed: bindings::SHRINK_STOP as c_ulong,
        scanned: None,
    };

    /// `objects` were freed, of as many as [should be scanned](super::ScanControl::nr_to_scan).
    ///
    /// Context: any.
    #[inline]
    pub const fn freed(objects: usize) -> Self {
        // INVARIANT: At most `isize::MAX`.
        Self {
            freed: clamp(objects),
            scanned: None,
        }
    }

    /// `objects` were freed of `scanned`, which may be less or more than was asked for.
    ///
    /// It is [`Self::STOP`] if none were scanned: the kernel would never end to ask.
    ///
    /// Context: any.
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

    /// Returns what C takes: what the function returns, and `nr_scanned` if it is to be changed.
    #[inline]
    pub(super) const fn into_raw(self) -> (c_ulong, Option<c_ulong>) {
        (self.freed, self.scanned)
    }
}

/// Returns what is less: `objects`, or what the kernel can subtract.
const fn clamp(objects: usize) -> c_ulong {
    // CAST: It is not negative.
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
    fn counts_are_those_of_c() {
        // Objects, what C gets.
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
    fn scans_are_those_of_c() {
        const MOST: c_ulong = c_ulong::MAX / 2;
        // Freed, scanned, what C gets.
        const ROWS: [(usize, usize, c_ulong, Option<c_ulong>); 8] = [
            (0, 1, 0, Some(1)),
            (3, 5, 3, Some(5)),
            // More than were asked for, or than were scanned, is for the caller to know.
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
