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
        EndIoResult,
        IoError, //
    },
    map::{
        MapBio,
        MapResult, //
    }, //
};

pub(super) mod args;
pub(super) mod audit;
pub(super) mod ctr;
pub(super) mod delayed_work;
pub(super) mod devices;
pub(super) mod event;
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
    ctr::TargetBuilder,
    devices::DeviceIndex,
    queue_limits::Limits,
    status::StatusBuf, //
};

/// A bio-based target. A value is the state of one table line.
///
/// See the [module documentation](super) for the context that each callback runs in.
#[vtable]
pub trait Target: Sized + Send + Sync + 'static {
    /// The name in table lines, at most 15 bytes.
    const NAME: &'static CStr;

    /// The version that `dmsetup targets` prints: major, minor, patch level.
    const VERSION: [u32; 3];

    /// Whether the target supports atomic writes ([`MapBio::is_atomic()`]). The default is no.
    const ATOMIC_WRITES: bool = false;

    /// Whether bios of the target may have an integrity payload ([`MapBio::set_integrity()`]). The
    /// default is no.
    const INTEGRITY_PAYLOADS: bool = false;

    /// Whether the target handles bios that must not wait ([`MapBio::is_nowait()`]). The default is
    /// no: such bios do not reach it.
    ///
    /// [`Target::map()`] must not sleep for them. If it would have to, it ends the bio with
    /// [`BlkError::AGAIN`].
    ///
    /// [`BlkError::AGAIN`]: crate::block::bio::BlkError::AGAIN
    const NOWAIT: bool = false;

    /// Whether constructed, refused and destroyed targets are recorded in the audit log. The
    /// default is no.
    ///
    /// C: `dm_audit_log_ctr()`, `dm_audit_log_dtr()` in `drivers/md/dm-audit.h`.
    const AUDITED: bool = false;

    /// The data that all targets of a registration share, such as counters of the module.
    ///
    /// [`Registration`] owns the data, and [`Target::ctr()`] borrows it. A target that needs the
    /// data later keeps an [`Arc`](kernel::sync::Arc) of it, so `ModuleData` is then an `Arc`. It
    /// is `()` for a target without such data. C: none; as `QueueData` in
    /// `rust/kernel/block/mq.rs`.
    ///
    /// [`Registration`]: super::Registration
    type ModuleData: Send + Sync + 'static;

    /// The per-bio data of the target. Created for each bio that needs it, see the
    /// [module documentation](super), and dropped after the bio ended, in any context.
    ///
    /// Its alignment must be at most 8 bytes. If the type has a destructor
    /// ([`core::mem::needs_drop()`]), a bio that the target itself ends completes a little later,
    /// in softirq context. The reason: the data may own other bios, and dropping it ends these.
    type PerBio: Default + Send + 'static;

    /// Parses a table line and opens its devices. `data` is that of the registration.
    ///
    /// The target must not be larger than what `kmalloc()` allocates: 4 MiB, less what the library
    /// keeps with it.
    ///
    /// Context: Process context. May sleep.
    fn ctr(
        data: &Self::ModuleData,
        builder: &mut TargetBuilder<'_>,
        args: Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, CtrError>;

    /// Maps a bio. Runs on all CPUs at once.
    ///
    /// Runs in NOIO scope: allocations cannot start I/O. It must not wait for a bio that it
    /// submitted.
    ///
    /// Context: Process context. May sleep.
    fn map<'a>(self: Pin<&Self>, bio: MapBio<'a, Self>) -> MapResult<'a, Self>;

    /// Handles the completion of a bio that [`MapBio::remap()`] or [`Bio::submit()`] sent to a
    /// device.
    ///
    /// The default completes the bio with the result of the device. Runs on all CPUs at once.
    ///
    /// Context: Any context except NMI. Must not sleep.
    ///
    /// [`Bio::submit()`]: super::Bio::submit
    fn end_io<'a>(bio: EndBio<'a, Self>) -> EndIoResult<'a, Self> {
        let _ = bio;
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Reports that a device has failed a bio, for example to count the errors of each device. The
    /// bio completes with the error after `io_error` has returned.
    ///
    /// Costs nothing for bios without an error: the bio needs no state. A target that implements
    /// `end_io` gets the errors there, and cannot implement `io_error`, too.
    ///
    /// Not called if a driver has passed the bio on to another device, as `md` does for RAID 0.
    /// Runs on all CPUs at once.
    ///
    /// Context: Any context except NMI. Must not sleep. C: `stripe_end_io()` in
    /// `drivers/md/dm-stripe.c`.
    fn io_error(self: Pin<&Self>, error: IoError) {
        let _ = error;
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the device whose zones the mapped device has, from the first sector passed to
    /// [`TargetBuilder::get_device()`] on. A target without `zones` cannot use a zoned device.
    ///
    /// The table is refused if the device ends before the zones of the line do.
    ///
    /// Context: Process context. May sleep.
    fn zones(self: Pin<&Self>) -> DeviceIndex {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the device that gets the ioctls that the block layer does not handle itself.
    ///
    /// Device mapper sends them if the table has a single line. The caller needs `CAP_SYS_RAWIO` if
    /// the line does not map the whole device: all of its sectors, from the first one on. This is
    /// the rule of `linear`. That of `switch` has the device end where the line does. Without
    /// `prepare_ioctl`, and for a device of another target, they fail with `ENOTTY`.
    ///
    /// Context: Process context. May sleep. C: `linear_prepare_ioctl()` in
    /// `drivers/md/dm-linear.c`.
    fn prepare_ioctl(self: Pin<&Self>) -> DeviceIndex {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Writes the text of `dmsetup status`. The default writes nothing.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn status_info(self: Pin<&Self>, out: &mut StatusBuf<'_>) -> fmt::Result {
        let _ = out;
        Ok(())
    }

    /// Writes the text of `dmsetup table`: arguments that construct the same target again.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn status_table(self: Pin<&Self>, out: &mut StatusBuf<'_>) -> fmt::Result {
        let _ = out;
        Ok(())
    }

    /// Writes the attributes that the Integrity Measurement Architecture measures:
    /// `,<name>=<value>` for each attribute, and a semicolon. They follow the name and the version
    /// of the target.
    ///
    /// Without `status_ima`, only the position of the line on the device is measured.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn status_ima(self: Pin<&Self>, out: &mut StatusBuf<'_>) -> fmt::Result {
        let _ = out;
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Handles `dmsetup message`. The text written to `out` is printed.
    ///
    /// Context: Process context. May sleep. Runs in NOIO scope.
    fn message(self: Pin<&Self>, args: Args<'_>, out: &mut StatusBuf<'_>) -> Result {
        let _ = (args, out);
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs after the delay of [`DelayedWork::queue()`], on the queue that was passed to
    /// [`TargetBuilder::delayed_work()`]. The default does nothing.
    ///
    /// Runs concurrently with all callbacks except itself. Runs in NOIO scope.
    ///
    /// Context: Process context. May sleep.
    ///
    /// [`DelayedWork::queue()`]: super::DelayedWork::queue
    fn delayed_work(self: Pin<&Self>) {}

    /// Runs before the device is suspended. Bios still arrive.
    ///
    /// A target that keeps bios submits them here: the suspend waits for all bios.
    ///
    /// Context: Process context. May sleep. Must not wait for I/O of the device.
    fn presuspend(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs when a suspend is cancelled.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn presuspend_undo(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs after the device is suspended. No bio is in flight, unless the device is being removed.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn postsuspend(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs before the device is resumed, also for the first time. An error prevents the resume.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn preresume(self: Pin<&Self>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs when the device is resumed. Bios arrive after `resume` returned.
    ///
    /// Context: Process context. May sleep. Must not start I/O.
    fn resume(self: Pin<&Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Adjusts the queue limits of the mapped device.
    ///
    /// Context: Process context. May sleep.
    fn io_hints(self: Pin<&Self>, limits: &mut Limits<'_>) {
        let _ = limits;
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}
