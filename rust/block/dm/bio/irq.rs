// SPDX-License-Identifier: GPL-2.0

//! A bio where it can be neither sent nor waited for.

use kernel::prelude::*;

use crate::{
    bindings,
    block::{
        bio::{
            BlkResult,
            Op,
            Segments,
            SegmentsMut,
            Tags, //
        },
        dm::target::Target, //
    },
    sync::workqueue::Workqueue, //
};

use super::owned::Bio;

/// A [`Bio`] that the target owns in a function that may run in an interrupt.
///
/// These get one: that of [`EndBio::defer()`], the `done` of [`CloneBio::submit()`], and that of
/// [`Bio::queue_soft()`]. It can do what does not sleep. For the rest there is [`IrqBio::queue()`].
///
/// Dropping it ends it, as a [`Bio`].
///
/// [`CloneBio::submit()`]: crate::block::dm::CloneBio::submit
/// [`EndBio::defer()`]: crate::block::dm::EndBio::defer
pub struct IrqBio<T: Target>(Bio<T>);

impl<T: Target> IrqBio<T> {
    #[inline]
    pub(in crate::block::dm) fn new(bio: Bio<T>) -> Self {
        Self(bio)
    }

    /// Returns the target, as [`Bio::target()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn target(&self) -> Pin<&T> {
        self.0.target()
    }

    /// Returns the operation.
    ///
    /// Context: Any.
    #[inline]
    pub fn op(&self) -> Op {
        self.0.op()
    }

    /// Returns the length in bytes, as it was in `map`.
    ///
    /// Context: Any.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.0.len_bytes()
    }

    /// Returns the target's data for this bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn data(&mut self) -> &mut T::PerBio {
        self.0.data()
    }

    /// Walks the bio's memory, as [`Bio::segments()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        self.0.segments()
    }

    /// Walks the bio's memory to fill it, as [`Bio::segments_mut()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn segments_mut(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>)> {
        self.0.segments_mut()
    }

    /// As [`Bio::segments_and_tags()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn segments_and_tags(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>, &[u8])> {
        self.0.segments_and_tags()
    }

    /// Takes the tags, as [`Bio::take_tags()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn take_tags(&mut self) -> Option<Tags> {
        self.0.take_tags()
    }

    /// Tells whether this is neither a hard interrupt nor with interrupts disabled, as
    /// [`EndBio::may_take_time()`](crate::block::dm::EndBio::may_take_time).
    ///
    /// Context: Any.
    #[inline]
    pub fn may_take_time(&self) -> bool {
        // SAFETY: Reads the preemption count and the interrupt flag of this CPU.
        unsafe { bindings::irqs_on() }
    }

    /// Ends the bio. The target may be gone when this returns.
    ///
    /// Context: Any. C: `bio_endio()` in `block/bio.c`.
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

    /// Runs `func` with the bio in softirq context, as [`Bio::queue_soft()`].
    ///
    /// Context: Any. C: `system_bh_wq`.
    #[inline]
    pub fn queue_soft(self, func: fn(IrqBio<T>)) {
        self.0.queue_soft(func);
    }
}
