// SPDX-License-Identifier: GPL-2.0

//! A bio in `end_io`, and what becomes of it.

use kernel::prelude::*;

use core::marker::PhantomData;

use crate::{
    bindings,
    block::{
        bio::{
            BlkResult,
            Op,
            SegmentsMut, //
        },
        dm::target::Target, //
    }, //
};

use super::{
    irq::IrqBio,
    map::Brand,
    owned::Bio,
    per_bio::Ptr, //
};

/// A bio that has come back, in [`Target::end_io()`].
///
/// # Invariants
///
/// `ptr` is the bio that the running call of `end_io` is about.
pub struct EndBio<'a, T: Target> {
    pub(in crate::block::dm) ptr: Ptr<T>,
    result: BlkResult,
    _brand: Brand<'a>,
}

/// What becomes of the bio in [`Target::end_io()`]; made by the methods of [`EndBio`].
///
/// # Invariants
///
/// `ptr` is there if and only if the bio is done.
#[must_use = "the bio is lost unless `end_io` returns this"]
pub struct EndIo<'a, T: Target> {
    ptr: Option<Ptr<T>>,
    result: BlkResult,
    _brand: Brand<'a>,
}

impl<'a, T: Target> EndBio<'a, T> {
    /// Starts a call of `end_io`.
    pub(in crate::block::dm) fn new(ptr: Ptr<T>, result: BlkResult) -> Self {
        // INVARIANT: The caller is the one call of `end_io`, as it has the only pointer.
        Self {
            ptr,
            result,
            _brand: PhantomData,
        }
    }

    /// Returns how the device ended the bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn result(&self) -> BlkResult {
        self.result
    }

    /// Returns the operation.
    ///
    /// Context: Any.
    #[inline]
    pub fn op(&self) -> Op {
        self.ptr.op()
    }

    /// Returns the length in bytes, as it was in `map`.
    ///
    /// Context: Any.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.ptr.iter().bi_size
    }

    /// Returns the target's data for this bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn data(&mut self) -> &mut T::PerBio {
        self.ptr.data()
    }

    /// Returns the target.
    ///
    /// Context: Any.
    #[inline]
    pub fn target(&self) -> Pin<&T> {
        self.ptr.inner().get_ref().target()
    }

    /// Walks the bio's memory to fill it; [`None`] unless the operation is [`Op::Read`].
    ///
    /// Returns the target too, as it is borrowed from the same bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn segments_mut(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>)> {
        self.ptr.segments_mut()
    }

    /// Tells whether this is neither a hard interrupt nor with interrupts disabled.
    ///
    /// What does not sleep but takes its time, such as a cipher, can be done here then. Otherwise leave
    /// it to [`IrqBio::queue_soft()`].
    ///
    /// Context: Any.
    #[inline]
    pub fn may_take_time(&self) -> bool {
        // SAFETY: Reads the preemption count and the interrupt flag of this CPU.
        unsafe { bindings::irqs_on() }
    }

    /// Ends the bio as the device ended it, as `DM_ENDIO_DONE`.
    ///
    /// Context: Any.
    #[inline]
    pub fn done(self) -> EndIo<'a, T> {
        let result = self.result;
        self.done_with(result)
    }

    /// Ends the bio with another result, as `DM_ENDIO_DONE`.
    ///
    /// Context: Any.
    #[inline]
    pub fn done_with(self, result: BlkResult) -> EndIo<'a, T> {
        EndIo {
            ptr: Some(self.ptr),
            result,
            _brand: PhantomData,
        }
    }

    /// Takes the bio over, as `DM_ENDIO_INCOMPLETE`, so that `func` may keep it beyond this call.
    ///
    /// Context: Any.
    #[inline]
    pub fn defer(mut self, func: impl FnOnce(IrqBio<T>)) -> EndIo<'a, T> {
        self.ptr.restore();
        func(IrqBio::new(Bio::new(self.ptr)));
        EndIo {
            ptr: None,
            result: Ok(()),
            _brand: PhantomData,
        }
    }
}

impl<T: Target> EndIo<'_, T> {
    /// Ends the call of `end_io`: returns the result of a bio that is done, [`None`] otherwise.
    #[inline]
    pub(in crate::block::dm) fn finish(self) -> Option<BlkResult> {
        self.ptr?.leave();
        Some(self.result)
    }
}
