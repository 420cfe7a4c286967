// SPDX-License-Identifier: GPL-2.0

//! I/O of the target itself, as opposed to that of its bios.
//!
//! A target creates its clients in `ctr`. The library destroys them, not the handles: after the
//! target is dropped, and before its devices are closed, it waits for the I/O in flight. So no I/O
//! outlives the devices of its table, also if a handle is leaked or another task uses it.

mod call;
pub(super) mod client;
pub(super) mod io;
pub(super) mod kcopyd;
mod waiter;

use crate::bindings;

/// The clients of a target. Dropping them waits for their I/O, and closes their handles.
#[derive(Default)]
pub(super) struct OwnIo {
    pub(super) io: Option<client::Owner<bindings::dm_io_client>>,
    pub(super) kcopyd: Option<client::Owner<bindings::dm_kcopyd_client>>,
}
