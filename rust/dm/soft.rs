// SPDX-License-Identifier: GPL-2.0

//! A bio in softirq context.

use kernel::prelude::*;

use crate::{
    bio::{
        BlkResult,
        SegmentsMut, //
    },
    workqueue::Workqueue, //
};

use super::{
    bio::Bio,
    target::Target, //
};

/// A [`Bio`] that the target owns in softirq context: see [`Bio::queue_soft()`].
///
/// It can do what does not sleep. For the rest there is [`SoftBio::queue()`].
///
/// Dropping it ends it, as a [`Bio`].
pub struct SoftBio<T: Target>(Bio<T>);

impl<T: Target> SoftBio<T> {
    #[inline]
    pub(super) fn new(bio: Bio<T>) -> Self {
        Self(bio)
    }

    /// Returns the target, as [`Bio::target()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn target(&self) -> Pin<&T> {
        self.0.target()
    }

    /// Returns the target's data for this bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn data(&mut self) -> &mut T::PerBio {
        self.0.data()
    }

    /// Walks the bio's memory to fill it, as [`Bio::segments_mut()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn segments_mut(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>)> {
        self.0.segments_mut()
    }

    /// Ends the bio. The target may be gone when this returns.
    ///
    /// Context: Any.
    #[inline]
    pub fn end(self, result: BlkResult) {
        self.0.end(result);
    }

    /// Runs `func` with the bio on a workqueue of the target's, as [`Bio::queue()`].
    ///
    /// Context: Any. `func` runs in process context and may sleep.
    #[inline]
    pub fn queue(self, select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x Workqueue, func: fn(Bio<T>)) {
        self.0.queue(select, func);
    }
}
