// SPDX-License-Identifier: GPL-2.0

//! A bio in `end_io`, the result of `end_io`, and the error in `io_error`.

use kernel::prelude::*;

use core::marker::PhantomData;

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult,
            Op, //
        },
        dm::target::{
            devices::DeviceIndex,
            Target, //
        }, //
    }, //
};

use super::{
    getters::impl_getters,
    map::Brand,
    owned::{
        irqs_enabled,
        Bio,
        IrqBio, //
    },
    per_bio::PerBioRef, //
};

/// A completed bio in [`Target::end_io()`].
///
/// # Invariants
///
/// `ptr` is the bio of the running call of `end_io`.
pub struct EndBio<'a, T: Target> {
    pub(in crate::block::dm) ptr: PerBioRef<T>,
    result: BlkResult,
    _brand: Brand<'a>,
}

/// The result of [`Target::end_io()`]. The methods of [`EndBio`] make it.
///
/// # Invariants
///
/// `ptr` is `Some` if and only if the bio is done.
#[must_use = "the bio is lost unless `end_io` returns this"]
pub struct EndIoResult<'a, T: Target> {
    ptr: Option<PerBioRef<T>>,
    result: BlkResult,
    _brand: Brand<'a>,
}

impl<'a, T: Target> EndBio<'a, T> {
    impl_getters!();

    /// Starts a call of `end_io`.
    pub(in crate::block::dm) fn new(ptr: PerBioRef<T>, result: BlkResult) -> Self {
        // INVARIANT: The caller has the only pointer, so it is the call of `end_io`.
        Self {
            ptr,
            result,
            _brand: PhantomData,
        }
    }

    /// Returns the result of the device.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn result(&self) -> BlkResult {
        self.result
    }

    /// Returns whether this is outside hard interrupts and interrupts are enabled.
    ///
    /// If so, long work that does not sleep, such as a cipher, may run here. Otherwise use
    /// [`IrqBio::queue_bh()`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn irqs_enabled(&self) -> bool {
        irqs_enabled()
    }

    /// Ends the bio with the result of the device, as `DM_ENDIO_DONE`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn done(self) -> EndIoResult<'a, T> {
        let result = self.result;
        self.done_with(result)
    }

    /// Ends the bio with another result, as `DM_ENDIO_DONE`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn done_with(self, result: BlkResult) -> EndIoResult<'a, T> {
        EndIoResult {
            ptr: Some(self.ptr),
            result,
            _brand: PhantomData,
        }
    }

    /// Passes the bio to `func`, which may keep it after this call, as `DM_ENDIO_INCOMPLETE`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn defer(mut self, func: impl FnOnce(IrqBio<T>)) -> EndIoResult<'a, T> {
        self.ptr.restore();
        func(Bio::new(self.ptr));
        EndIoResult {
            ptr: None,
            result: Ok(()),
            _brand: PhantomData,
        }
    }
}

/// A bio that a device has failed, in [`Target::io_error()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoError {
    device: DeviceIndex,
    error: BlkError,
    opf: bindings::blk_opf_t,
}

impl IoError {
    pub(in crate::block::dm) fn new(
        device: DeviceIndex,
        error: BlkError,
        opf: bindings::blk_opf_t,
    ) -> Self {
        Self { device, error, opf }
    }

    /// Returns the device that has failed the bio. If the target has opened it several times, this
    /// is the first index.
    ///
    /// Context: Any context. Never sleeps.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// Returns the error.
    ///
    /// Context: Any context. Never sleeps.
    pub fn error(&self) -> BlkError {
        self.error
    }

    /// Returns the operation of the bio.
    ///
    /// Context: Any context. Never sleeps.
    pub fn op(&self) -> Op {
        Op::from_opf(self.opf)
    }

    /// Returns whether the bio reads ahead (`REQ_RAHEAD`): a device may fail it because it is busy.
    ///
    /// Context: Any context. Never sleeps.
    pub fn is_readahead(&self) -> bool {
        self.opf & bindings::REQ_RAHEAD != 0
    }
}

impl<T: Target> EndIoResult<'_, T> {
    /// Ends the call of `end_io`. Returns the result of a bio that is done, and [`None`] otherwise.
    #[inline]
    pub(in crate::block::dm) fn finish(self) -> Option<BlkResult> {
        self.ptr?.destroy();
        Some(self.result)
    }
}
