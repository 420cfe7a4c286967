// SPDX-License-Identifier: GPL-2.0

//! Magazines: arrays of ranges that move together.

use core::num::NonZeroUsize;

use super::MagazineBox;

/// The number of ranges in a magazine.
///
/// With the link and the length, a magazine takes 1 KiB. C's have 127 ranges, as only full
/// magazines are linked there (`IOVA_MAG_SIZE` in `drivers/iommu/iova.c`).
pub(super) const MAGAZINE_SIZE: usize = 126;

/// The first page frame of a range, and the ownership of the range.
///
/// # Invariants
///
/// The range is allocated from a domain, and nothing else allocates or frees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pfn(NonZeroUsize);

impl Pfn {
    /// Wraps a page frame number.
    ///
    /// # Safety
    ///
    /// An allocated range must start there, and the caller must give up its ownership.
    #[inline]
    pub(super) unsafe fn new(pfn: NonZeroUsize) -> Self {
        // INVARIANT: By the safety requirements.
        Self(pfn)
    }

    /// Returns the number, and passes the ownership of the range to the caller.
    #[inline]
    pub(super) fn into_inner(self) -> NonZeroUsize {
        self.0
    }
}

/// Up to [`MAGAZINE_SIZE`] ranges of one size.
///
/// # Invariants
///
/// The first `len` of `pfns` are `Some`.
pub(super) struct Magazine {
    next: Option<MagazineBox>,
    len: usize,
    pfns: [Option<Pfn>; MAGAZINE_SIZE],
}

impl Magazine {
    /// An empty magazine.
    pub(super) const EMPTY: Self = Self {
        next: None,
        len: 0,
        pfns: [const { None }; MAGAZINE_SIZE],
    };

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == MAGAZINE_SIZE
    }

    /// Adds a range. Returns it if the magazine is full.
    #[inline]
    pub(super) fn push(&mut self, pfn: Pfn) -> Result<(), Pfn> {
        match self.pfns.get_mut(self.len) {
            Some(place) => {
                *place = Some(pfn);
                // INVARIANT: This entry is `Some`.
                self.len += 1;
                Ok(())
            }
            None => Err(pfn),
        }
    }

    /// Removes the last range that starts at `limit_pfn` or below.
    #[inline]
    pub(super) fn pop(&mut self, limit_pfn: usize) -> Option<Pfn> {
        let fits = |pfn: &Option<Pfn>| pfn.as_ref().is_some_and(|pfn| pfn.0.get() <= limit_pfn);
        let index = self.pfns.get(..self.len)?.iter().rposition(fits)?;

        // INVARIANT: The last entry replaces the removed one.
        self.len -= 1;
        self.pfns.swap(index, self.len);
        self.pfns.get_mut(self.len)?.take()
    }

    /// Moves the last `count` ranges to another magazine, or fewer if that is full before.
    pub(super) fn move_to(&mut self, to: &mut Self, count: usize) {
        for _ in 0..count.min(MAGAZINE_SIZE - to.len) {
            match self.pop(usize::MAX).map(|pfn| to.push(pfn)) {
                Some(Ok(())) => (),
                // Not reached: there is room, see above.
                Some(Err(_)) | None => break,
            }
        }
    }
}

/// A LIFO of magazines.
///
/// # Invariants
///
/// The list has `len` magazines.
pub(super) struct List {
    first: Option<MagazineBox>,
    len: usize,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            first: None,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, mut magazine: MagazineBox) {
        magazine.next = self.first.take();
        // INVARIANT: Adds one magazine.
        self.first = Some(magazine);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<MagazineBox> {
        let mut magazine = self.first.take()?;
        // INVARIANT: Removes one magazine.
        self.first = magazine.next.take();
        self.len -= 1;
        Some(magazine)
    }

    /// Returns the number of ranges.
    pub(super) fn ranges(&self) -> usize {
        let mut next = self.first.as_ref();
        let mut ranges = 0;
        while let Some(magazine) = next {
            ranges += magazine.len;
            next = magazine.next.as_ref();
        }
        ranges
    }
}

impl Drop for List {
    /// Drops one magazine at a time: a recursive drop would use stack for each magazine.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
