// SPDX-License-Identifier: GPL-2.0

//! The [`Target`] trait.

use kernel::{
    build_error,
    error::VTABLE_DEFAULT_ERROR,
    fmt,
    prelude::*, //
};

use super::bio::{
    end_io::{
        EndBio,
        EndIo, //
    },
    map::{
        Map,
        MapBio, //
    }, //
};

pub(super) mod args;
pub(super) mod audit;
pub(super) mod ctr;
pub(super) mod devices;
pub(super) mod queue_limits;
pub(super) mod registration;
pub(super) mod status;
pub(super) mod target_type;
pub(super) mod vtable;

use self::{
    args::{
        Args,
        CtrError, //
    },
    ctr::Table,
    devices::Device,
    queue_limits::Limits,
    status::Output, //
};

/// A bio-based target; a value is the state of one line of a table.
///
/// See the [module documentation](super) for the context that each callback runs in.
#[vtable]
pub trait Target: Sized + Send + Sync + 'static {
    /// The name in table lines, at most 15 bytes.
    const NAME: &'static CStr;

    /// The version that `dmsetup targets` prints: major, minor, patch level.
    const VERSION: [u32; 3];

    /// Whether the target takes atomic writes ([`MapBio::is_atomic()`]), none by default.
    const ATOMIC_WRITES: bool = false;

    /// Whether the audit log is told of lines that are taken and refused, and of targets that go. It is
    /// not by default. C: `dm_audit_log_ctr()`, `dm_audit_log_dtr()` in `drivers/md/dm-audit.h`.
    const AUDITED: bool = false;

    /// What the target keeps for each bio. Made anew for each, dropped when the bio ended, in any
    /// context.
    ///
    /// Aligned to 8 bytes at most. If it has a destructor ([`core::mem::needs_drop()`]), a bio that the
    /// target itself ends does so in softirq context, a little later: the data may own other bios, which
    /// end when it is dropped.
    type PerBio: Default + Send + 'static;

    /// Parses a table line and opens its devices.
    fn ctr(table: &mut Table<'_>, args: Args<'_>) -> Result<impl PinInit<Self, Error>, CtrError>;

    /// Decides what becomes of a bio. Runs on all CPUs at once.
    ///
    /// In NOIO scope: allocations cannot start I/O. Must not wait for a bio that it submitted.
    fn map<'a>(self: Pin<&Self>, bio: MapBio<'a, Self>) -> Map<'a, Self>;

    /// Sees a bio that [`MapBio::remap()`] or [`Bio::submit()`] sent to a device come back.
    ///
    /// Without it such a bio ends as the device ended it. Runs in any context, also in hard
    /// interrupts, on all CPUs at once.
    ///
    /// [`Bio::submit()`]: super::Bio::submit
    fn end_io<'a>(bio: EndBio<'a, Self>) -> EndIo<'a, Self> {
        let _ = bio;
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the device whose zones are those of the mapped device, from the sector on that
    /// [`Table::get_device()`] was told. Without it no zoned device can be below.
    fn zones(self: Pin<&Self>) -> Device {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Writes what `dmsetup status` prints, nothing by default.
    fn status_info(self: Pin<&Self>, out: &mut Output<'_>) -> fmt::Result {
        let _ = out;
        Ok(())
    }

    /// Writes what `dmsetup table` prints: arguments that would make the same target again.
    fn status_table(self: Pin<&Self>, out: &mut Output<'_>) -> fmt::Result {
        let _ = out;
        Ok(())
    }

    /// Writes what the Integrity Measurement Architecture measures of the line, behind the name and
    /// the version of the target: `,<name>=<value>` for each attribute, and a semicolon.
    ///
    /// Without it nothing is measured but where the line is on the device.
    fn status_ima(self: Pin<&Self>, out: &mut Output<'_>) -> fmt::Result {
        let _ = out;
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Carries out `dmsetup message`; what it writes to `out` is printed.
    fn message(self: Pin<&Self>, args: Args<'_>, out: &mut Output<'_>) -> Result {
        let _ = (args, out);
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Hears that the device is about to be suspended; bios still come.
    fn presuspend(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Hears that the suspend was given up.
    fn presuspend_undo(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Hears that the device is suspended. No bio is in flight, unless the device is being
    /// removed.
    fn postsuspend(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Hears that the device is about to be resumed, the first time too; an error prevents it.
    fn preresume(self: Pin<&Self>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Hears that the device is resumed; bios come when this returned.
    fn resume(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Adjusts the limits of the mapped device.
    fn io_hints(self: Pin<&Self>, limits: &mut Limits<'_>) {
        let _ = limits;
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}
