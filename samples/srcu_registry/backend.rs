// SPDX-License-Identifier: GPL-2.0

//! The interface of the registry implementations.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::reclaimer::Reclaimer;

/// An implementation of a registry.
pub(crate) trait Backend: Send + Sync + Sized + 'static {
    /// Name of the debugfs directory.
    const NAME: &'static CStr;

    /// The handle that unregisters a reclaimer.
    type Entry: Send;

    /// Creates an empty registry.
    fn new() -> impl PinInit<Self, Error>;

    /// Registers a reclaimer. Later walks call it.
    fn register(&self, reclaimer: Arc<Reclaimer>) -> Result<Self::Entry>;

    /// Unregisters a reclaimer. After the return no walk calls it.
    ///
    /// Context: Process context. May sleep. A reclaimer must not call this: it would wait for
    /// itself (deadlock).
    fn unregister(&self, entry: Self::Entry);

    /// Calls `visit` for all reclaimers, from the newest to the oldest. `visit` may sleep.
    fn walk(&self, visit: impl FnMut(&Reclaimer)) -> Walk;
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// The walk called all reclaimers that were registered during the whole walk.
    Complete,
    /// The walk stopped early because of a writer.
    CutShort,
    /// The walk did not start because of a writer.
    Skipped,
}
