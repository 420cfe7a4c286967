// SPDX-License-Identifier: GPL-2.0

//! Magazines: a number of ranges that move together.

use core::num::NonZeroUsize;

use super::MagazineBox;

/// Ranges of one magazine.
///
/// With its link and its length that makes a magazine 1 KiB. C has 127, as only its full magazines
/// are linked (`IOVA_MAG_SIZE` in `drivers/iommu/iova.c`).
pub(super) const MAGAZINE_SIZE: usize = 126;

/// The first page frame of a range of some size, and the right to hand it out or to free it.
///
/// # Invariants
///
/// The range is allocated from a domain, and nobody else hands it out or frees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pfn(NonZeroUsize);

impl Pfn {
    /// Wraps the number of a page frame.
    ///
    /// # Safety
    ///
    /// A range that starts there must be allocated, and the caller give it away.
    #[inline]
    pub(super) unsafe fn new(pfn: NonZeroUsize) -> Self {
        // INVARIANT: By the safety requirements.
        Self(pfn)
    }

    /// Returns the number, for the caller to see to the range.
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
    /// An empty one.
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

    /// Adds a range. Gives it back if the magazine is full.
    #[inline]
    pub(super) fn push(&mut self, pfn: Pfn) -> Result<(), Pfn> {
        match self.pfns.get_mut(self.len) {
            Some(place) => {
                *place = Some(pfn);
                // INVARIANT: So it is `Some`.
                self.len += 1;
                Ok(())
            }
            None => Err(pfn),
        }
    }

    /// Takes the last range there is that starts at `limit_pfn` at most.
    #[inline]
    pub(super) fn pop(&mut self, limit_pfn: usize) -> Option<Pfn> {
        let fits = |pfn: &Option<Pfn>| pfn.as_ref().is_some_and(|pfn| pfn.0.get() <= limit_pfn);
        let index = self.pfns.get(..self.len)?.iter().rposition(fits)?;

        // INVARIANT: The last one takes its place.
        self.len -= 1;
        self.pfns.swap(index, self.len);
        self.pfns.get_mut(self.len)?.take()
    }

    /// Moves the last `count` ranges to another magazine, or as many as there is room for.
    pub(super) fn give(&mut self, to: &mut Self, count: usize) {
        for _ in 0..count.min(MAGAZINE_SIZE - to.len) {
            match self.pop(usize::MAX).map(|pfn| to.push(pfn)) {
                Some(Ok(())) => (),
                // There is room, see above.
                Some(Err(_)) | None => break,
            }
        }
    }
}

/// Magazines, the one that came last in front.
///
/// # Invariants
///
/// There are `len` of them.
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
        // INVARIANT: One more.
        self.first = Some(magazine);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<MagazineBox> {
        let mut magazine = self.first.take()?;
        // INVARIANT: One less.
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
    /// One by one, as a list that drops itself is as deep as it is long.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
