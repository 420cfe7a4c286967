// SPDX-License-Identifier: GPL-2.0

//! A bio in a context that can neither submit a bio nor wait for it.

use kernel::prelude::*;

use crate::{
    bindings,
    block::{
        bio::{
            BlkResult,
            IntegrityPayload,
            Op,
            Segments,
            SegmentsMut, //
        },
        dm::target::Target, //
    },
    sync::workqueue::Workqueue, //
};

use super::owned::Bio;

/// An owned [`Bio`] in a function that may run in an interrupt.
///
/// The functions of [`EndBio::defer()`], [`CloneBio::submit()`] and [`Bio::queue_bh()`] get one.
/// It has the operations that do not sleep. [`IrqBio::queue()`] moves it to process context.
///
/// Dropping it ends the bio, as for a [`Bio`].
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
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn target(&self) -> Pin<&T> {
        self.0.target()
    }

    /// Returns the operation.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn op(&self) -> Op {
        self.0.op()
    }

    /// Returns the length in bytes at the call of `map`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.0.len_bytes()
    }

    /// Returns the per-bio data of the target.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn data(&mut self) -> &mut T::PerBio {
        self.0.data()
    }

    /// Returns an iterator over the memory of the bio, as [`Bio::segments()`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        self.0.segments()
    }

    /// Returns the target and a mutable iterator over the memory, as [`Bio::segments_mut()`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn segments_mut(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>)> {
        self.0.segments_mut()
    }

    /// Returns the memory and the tags of a read, as [`Bio::segments_and_integrity()`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn segments_and_integrity(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>, &[u8])> {
        self.0.segments_and_integrity()
    }

    /// Takes the tags, as [`Bio::take_integrity()`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn take_integrity(&mut self) -> Option<IntegrityPayload> {
        self.0.take_integrity()
    }

    /// Returns whether this is outside hard interrupts and interrupts are enabled, as
    /// [`EndBio::irqs_enabled()`](crate::block::dm::EndBio::irqs_enabled).
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn irqs_enabled(&self) -> bool {
        // SAFETY: Reads the preemption count and the interrupt flag of this CPU.
        unsafe { bindings::irqs_on() }
    }

    /// Ends the bio. The target may be gone when `end()` returns.
    ///
    /// Context: Any context. Never sleeps. C: `bio_endio()` in `block/bio.c`.
    #[inline]
    pub fn end(self, result: BlkResult) {
        self.0.end(result);
    }

    /// Runs `func` with the bio on a workqueue of the target, as [`Bio::queue()`].
    ///
    /// Context: Any context. Never sleeps. `func` runs in process context and may sleep.
    #[inline]
    pub fn queue(self, select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x Workqueue, func: fn(Bio<T>)) {
        self.0.queue(select, func);
    }

    /// Runs `func` with the bio in softirq context, as [`Bio::queue_bh()`].
    ///
    /// Context: Any context. Never sleeps. C: `system_bh_wq`.
    #[inline]
    pub fn queue_bh(self, func: fn(IrqBio<T>)) {
        self.0.queue_bh(func);
    }
}
