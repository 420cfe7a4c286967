// SPDX-License-Identifier: GPL-2.0

//! Device mapper targets.
//!
//! A target remaps the bios of a mapped device to the devices below. This module is for bio-based
//! targets. A disk driver uses [`kernel::block::mq`] instead.
//!
//! To write a target:
//!
//! 1. Implement [`Target`] for the state of one table line. [`Target::ctr()`] parses the line and
//!    opens the devices; [`Target::map()`] maps a bio.
//! 2. Put a [`Registration`] of the target into the state of the module. The registration owns the
//!    [`Target::ModuleData`] that all its targets share.
//!
//! `samples/dm_offset.rs` is a whole target of about a hundred lines. `samples/dm/` has targets
//! that do what their namesakes in C do.
//!
//! # The life of a bio
//!
//! [`Target::map()`] takes a [`MapBio`] and returns a [`MapResult`]. A `MapResult` can only be made
//! from a bio, so no bio is lost:
//!
//! - [`MapBio::remap()`] sends the bio to a device. On completion, [`Target::end_io()`] gets it as
//!   an [`EndBio`]. A target that only counts errors has [`Target::io_error()`] instead.
//! - [`MapBio::end()`], [`MapBio::kill()`] and [`MapBio::requeue()`] complete the bio.
//! - [`MapBio::defer()`] turns it into an owned [`Bio`]. An owned bio may move to other tasks, wait
//!   on a workqueue ([`Bio::queue()`]), and be sent as a clone ([`Bio::bounce()`]) or as several
//!   clones ([`Bio::into_parent()`]) before it is ended. A `Bio` that is dropped ends with
//!   [`BlkError::IOERR`]. Functions that may run in an interrupt get an [`IrqBio`] instead.
//!
//! Device mapper has room for the state of each bio: the state of this library, and
//! [`Target::PerBio`]. If `PerBio` has a destructor, or the target implements `end_io` or sets
//! [`Target::INTEGRITY_PAYLOADS`], the state is initialised before `map`. Otherwise
//! [`MapBio::data()`] and [`MapBio::defer()`] initialise it: a bio that `map` remaps or ends
//! without them has no state.
//!
//! On devices with integrity metadata, a bio may have an [`IntegrityPayload`]. The bio owns the
//! payload while a device may use it: [`MapBio::set_integrity()`] or [`CloneBio::set_integrity()`]
//! attaches it, and [`Bio::segments_and_integrity()`] lends its bytes after completion.
//!
//! A bio is a read, a write or another operation: see [`Op`]. A flush is a write for which
//! [`MapBio::is_flush()`] is true. Of a flush, a discard, a secure erase and a write of zeroes, a
//! target may request several bios, for example one for each of its devices:
//! [`TargetBuilder::set_num_flush_bios()`], [`MapBio::target_bio_nr()`], [`MapBio::remap_range()`].
//!
//! A target notifies user space of an event, such as a device that fails, by [`TableEvent`]. It
//! runs code later, for example to submit bios that it delays, by [`DelayedWork`].
//!
//! A target does I/O to its devices that belongs to no bio by an [`IoClient`], for example for its
//! metadata. A [`KcopydClient`] copies areas of its devices. Both can wait for the end of their
//! I/O, or call a function then.
//!
//! Targets with [`Target::AUDITED`] are recorded in the audit log. [`ReadClone::audit()`] records
//! an event of a sector.
//!
//! A bio keeps its target alive: [`Bio::target()`] borrows the target from the bio. After the last
//! bio ended, the target may be freed at any time. So no method that ends a bio takes a reference
//! to the target.
//!
//! # Context of the callbacks
//!
//! | callback | runs in | may sleep | concurrent with |
//! | --- | --- | --- | --- |
//! | `ctr`, drop | ioctl | yes | other targets only |
//! | `map` | the submitter, or `kdmflush` | yes, in NOIO scope | everything, including itself |
//! | `end_io`, `io_error` | any, including hard interrupts | no | everything |
//! | `done` of [`CloneBio::submit()`] and [`ChildBio::submit()`] | any, including hard interrupts | no | everything |
//! | `done` of [`Bio::into_parent()`] | that of the last drop of a [`ParentBio`] | no | everything |
//! | functions of [`IoClient::read_async()`] and [`IoClient::write_async()`] | softirq, hard interrupts, or with interrupts disabled | no | everything |
//! | functions of [`KcopydClient::copy_async()`] | a worker | yes | everything but themselves |
//! | functions of [`Bio::queue()`] | a worker | yes, in NOIO scope | everything |
//! | functions of [`Bio::queue_bh()`] | softirq | no | everything |
//! | drop of [`Target::PerBio`] | any, including hard interrupts | no | everything |
//! | `delayed_work` | a worker | yes, in NOIO scope | everything except itself |
//! | suspend and resume hooks | ioctl | yes; only `presuspend` may submit bios | `message`, `status`; `map` unless drained |
//! | `message` | ioctl | yes, in NOIO scope | everything, including itself |
//! | `status` | ioctl | yes, without I/O | everything, including itself |
//! | `io_hints` | table load | yes | `message`, `status` |
//! | `zones` | table load, ioctl | yes | everything |
//! | `prepare_ioctl` | ioctl | yes | everything |
//! | drop of [`Target::ModuleData`] | module unload | yes | nothing of the target |
//!
//! A function that may run in a hard interrupt gets an [`IrqBio`]. An `IrqBio` cannot be sent:
//! [`IrqBio::queue()`] queues it to a worker.
//!
//! A function that has ended the last bio of a target may still run after the target, its table,
//! and all references to its module are gone. Its code stays loaded: module unload waits until the
//! function has returned.
//!
//! Not covered: request-based targets, and so `DM_TARGET_WILDCARD`; zones other than those of a
//! single device; DAX; integrity metadata and inline encryption of the layer above
//! (`DM_TARGET_PASSES_INTEGRITY`, `DM_TARGET_PASSES_CRYPTO`).
//!
//! C header: [`include/linux/device-mapper.h`](srctree/include/linux/device-mapper.h)
//!
//! [`BlkError::IOERR`]: crate::block::bio::BlkError::IOERR
//! [`IntegrityPayload`]: crate::block::bio::IntegrityPayload
//! [`Op`]: crate::block::bio::Op

mod bio;
mod own_io;
mod submit;
mod target;
mod wait;

pub(crate) use self::target::target_type::synchronize_rcu_tasks;

#[doc(inline)]
pub use self::{
    bio::{
        bounce::CompoundSource,
        clone::CloneBio,
        end_io::{
            EndBio,
            EndIoResult,
            IoError, //
        },
        integrity::{
            DeviceName,
            ReadClone, //
        },
        list::BioList,
        map::{
            MapBio,
            MapResult, //
        },
        owned::{
            Bio,
            IrqBio, //
        },
        parent::{
            ChildBio,
            IrqParentBio,
            ParentBio, //
        }, //
    },
    own_io::{
        client::Region,
        io::IoClient,
        kcopyd::{
            CopyError,
            KcopydClient, //
        }, //
    },
    submit::sorted::SortedSubmitQueue,
    target::{
        args::{
            Args,
            CtrError,
            SecretArg, //
        },
        ctr::TargetBuilder,
        delayed_work::DelayedWork,
        devices::DeviceIndex,
        event::TableEvent,
        queue_limits::Limits,
        registration::Registration,
        status::StatusBuf,
        Target, //
    }, //
};
