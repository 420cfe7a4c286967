// SPDX-License-Identifier: GPL-2.0

//! What the ways to keep a registry have in common.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::reclaimer::Reclaimer;

/// A way to keep a registry.
pub(crate) trait Backend: Send + Sync + Sized + 'static {
    /// Of its directory.
    const NAME: &'static CStr;

    /// What it takes to unregister a reclaimer.
    type Entry: Send;

    /// Creates an empty registry.
    fn new() -> impl PinInit<Self, Error>;

    /// Registers a reclaimer. From now on walks find it.
    fn register(&self, reclaimer: Arc<Reclaimer>) -> Result<Self::Entry>;

    /// Unregisters a reclaimer. When this returns it is not being called, nor ever again.
    ///
    /// Sleeps. Not to be called by a reclaimer that is called: it would wait for itself.
    fn unregister(&self, entry: Self::Entry);

    /// Calls `visit` with all reclaimers, the newest first. It may sleep.
    fn walk(&self, visit: impl FnMut(&Reclaimer)) -> Walk;
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// All reclaimers were called that were registered all the time.
    Complete,
    /// It made way for a writer.
    CutShort,
    /// It was not begun, because of a writer.
    Skipped,
}
