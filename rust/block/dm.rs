// SPDX-License-Identifier: GPL-2.0

//! Device mapper targets.
//!
//! A target turns the bios of a mapped device into bios of the devices below. Use this module for
//! bio-based targets; a disk driver wants [`kernel::block::mq`] instead.
//!
//! To write one:
//!
//! 1. Implement [`Target`] for the state of one table line. [`Target::ctr()`] parses the line and
//!    opens the devices; [`Target::map()`] says what becomes of a bio.
//! 2. Put a [`Registration`] of it into the module's state.
//!
//! `samples/dm_offset.rs` is a whole target in a hundred lines.
//!
//! # The life of a bio
//!
//! [`Target::map()`] gets a [`MapBio`] and returns a [`Map`], and only a bio makes a `Map`, so none
//! can be lost:
//!
//! - [`MapBio::remap()`] sends it on to a device. When it comes back, [`Target::end_io()`] sees it
//!   as an [`EndBio`].
//! - [`MapBio::end()`], [`MapBio::kill()`] and [`MapBio::requeue()`] are done with it.
//! - [`MapBio::defer()`] makes an owned [`Bio`] of it, which may move to other tasks, wait on a
//!   workqueue ([`Bio::queue()`]), go out as a clone ([`Bio::bounce()`]), and at last is ended.
//!   One that is dropped ends with [`BlkError::IOERR`]. In
//!   functions that may run in an interrupt it is an [`IrqBio`].
//!
//! On devices that keep something beside their sectors, a bio may have [`Tags`]. They are its own while
//! a device may use them: set with [`MapBio::set_tags()`] or [`CloneBio::set_tags()`], and lent again by
//! [`Bio::segments_and_tags()`] when it is back.
//!
//! The audit log hears of targets with [`Target::AUDITED`], and of sectors that [`ReadClone::audit()`] is
//! called for.
//!
//! As long as there is a bio, there is its target: [`Bio::target()`] borrows it from the bio. After
//! the last bio ended the target may be freed at any time, which is why no method that ends a bio
//! takes a reference to the target.
//!
//! # Context of the callbacks
//!
//! | callback | runs in | may sleep | concurrent with |
//! | --- | --- | --- | --- |
//! | `ctr`, drop | ioctl | yes | other targets only |
//! | `map` | the submitter, or `kdmflush` | yes, in NOIO scope | everything, itself too |
//! | `end_io` | any, also hard interrupts | no | everything |
//! | functions of [`CloneBio::submit()`] and its like | any, also hard interrupts | no | everything |
//! | functions of [`Bio::queue()`] | a worker | yes, in NOIO scope | everything |
//! | functions of [`Bio::queue_soft()`] | softirq | no | everything |
//! | drop of [`Target::PerBio`] | any, also hard interrupts | no | everything |
//! | suspend and resume hooks | ioctl | yes, NOIO | `message`, `status`; `map` unless drained |
//! | `message`, `status` | ioctl | yes, NOIO | everything, themselves too |
//! | `io_hints` | table load | yes | `message`, `status` |
//! | `zones` | table load, ioctl | yes | everything |
//!
//! A function that may run in a hard interrupt gets an [`IrqBio`], which cannot be sent: [`IrqBio::queue()`]
//! leaves it to a worker.
//!
//! A function that has ended the last bio of a target may go on when the target, its table, and all
//! references to its module are gone. The code stays until it has returned: to unload the module waits
//! for that.
//!
//! Not covered: request-based targets, zones other than those of one device, DAX, more than one duplicate of a bio
//! (`num_flush_bios > 1`), kernels with `CONFIG_CFI`.
//!
//! C header: [`include/linux/device-mapper.h`](srctree/include/linux/device-mapper.h)
//!
//! [`BlkError::IOERR`]: crate::block::bio::BlkError::IOERR
//! [`Tags`]: crate::block::bio::Tags

mod bio;
mod submit;
mod target;

pub(crate) use self::target::target_type::wait_for_tails;

#[doc(inline)]
pub use self::{
    bio::{
        bounce::Blocks,
        clone::CloneBio,
        end_io::{
            EndBio,
            EndIo, //
        },
        integrity::{
            DeviceName,
            ReadClone, //
        },
        irq::IrqBio,
        list::BioList,
        map::{
            Map,
            MapBio, //
        },
        owned::Bio, //
    },
    submit::sorted::SendQueue,
    target::{
        args::{
            Args,
            CtrError,
            SecretArg, //
        },
        ctr::Table,
        devices::Device,
        queue_limits::Limits,
        registration::Registration,
        status::Output,
        Target, //
    }, //
};
