// SPDX-License-Identifier: GPL-2.0

//! The task and CPU that process a bio, by table options and backing device.
//!
//! | | encrypted or decrypted by | sent to the device by |
//! | --- | --- | --- |
//! | default | any worker, on any CPU | that worker; for a rotational device, a worker that sorts by sector |
//! | default, a small synchronous write to a device that is not rotational | the submitter | the submitter |
//! | `same_cpu_crypt` | a worker on the CPU that queued the bio | as by default |
//! | `submit_from_crypt_cpus` | as by default | the worker that encrypted |
//! | `no_write_workqueue`, or a zoned device | the submitter | the submitter |
//! | `no_read_workqueue` | the completion of the read; a softirq if that is a hard interrupt | |
//!
//! `high_priority` makes the workqueues `WQ_HIGHPRI`.
//!
//! This differs from dm-crypt in two points:
//!
//! - dm-crypt sorts writes to every device. Sorting helps rotational devices only. For other
//!   devices it adds a context switch, and a single CPU submits the writes that many CPUs
//!   encrypted.
//! - In dm-crypt a worker encrypts each write. If a task waits for a small write, the switch to a
//!   worker only delays it. So the submitter encrypts it, unless the cipher may sleep: then a
//!   worker waits for the cipher, and the submitter may go on. The module parameter
//!   `max_inline_write_size` limits the size of these writes.

use kernel::{
    cpu,
    prelude::*,
    str::CString,
    sync::atomic::Relaxed, //
};

use kscale::{
    block::dm::{
        self,
        CtrError, //
    },
    module::param::writable_param,
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use crate::{
    options::Options,
    Crypt,
    Shared, //
};

writable_param! {
    /// Maximum size of a synchronous write that its submitter encrypts, in bytes.
    static MAX_INLINE_WRITE_SIZE: Param = (
        "max_inline_write_size",
        65536,
        "Maximum size in bytes of a synchronous write that its submitter encrypts",
    );
}

/// The workqueue and the options that select the task that processes a bio.
pub(crate) struct Dispatch {
    /// Encrypts and decrypts bios.
    pub(crate) crypt: Workqueue,
    /// The completion of a read decrypts it.
    pub(crate) read_inline: bool,
    /// A softirq decrypts a read that completes in a hard interrupt. Otherwise a worker does.
    pub(crate) read_in_softirq: bool,
    /// The submitter of a write encrypts and sends it.
    write_inline: bool,
    /// The submitter of a small synchronous write encrypts and sends it.
    small_write_inline: bool,
    /// A worker that sorts by sector sends writes.
    pub(crate) sorted_writes: bool,
}

impl Dispatch {
    /// Selects the options for a target on `device` and allocates its two workqueues: the one in
    /// `Dispatch` and the one that sends sorted writes.
    ///
    /// Completions run in atomic context. If decryption `may_sleep`, workers decrypt even with
    /// `no_read_workqueue`. A read that `has_tuples` may have to be repeated, which a softirq
    /// cannot do.
    pub(crate) fn new(
        options: &Options,
        builder: &dm::TargetBuilder<'_>,
        device: dm::DeviceIndex,
        (may_sleep, has_tuples): (bool, bool),
        shared: &Shared,
    ) -> Result<(Self, Workqueue), CtrError> {
        let name = builder.device_name().to_str().unwrap_or_default();
        let id = shared.next_id.fetch_add(1, Relaxed);
        let letter = shared.letter;
        let common = common_flags(options);
        let (flags, max_active) = crypt_flags(options);
        let crypt = CString::try_from_fmt(fmt!("{letter}cryptd-{name}-{id}"))?;
        let crypt = Workqueue::new(&crypt, common | flags, max_active)
            .map_err(|error| CtrError::new(c"Couldn't create kcryptd queue", error))?;
        let send = CString::try_from_fmt(fmt!("{letter}cryptd_write-{name}-{id}"))?;
        let send = Workqueue::new(&send, common | Flags::UNBOUND, 1)
            .map_err(|error| CtrError::new(c"Couldn't spawn write thread", error))?;

        let sorted_writes = builder.is_rotational(device)
            && !options.no_write_workqueue
            && !options.submit_from_crypt_cpus;
        let this = Self {
            crypt,
            read_inline: options.no_read_workqueue && !may_sleep,
            read_in_softirq: !has_tuples,
            write_inline: options.no_write_workqueue,
            small_write_inline: !sorted_writes && !may_sleep,
            sorted_writes,
        };
        Ok((this, send))
    }

    /// Returns whether the submitter of a write encrypts and sends it.
    #[inline]
    pub(crate) fn is_inline_write(&self, bio: &dm::MapBio<'_, Crypt>) -> bool {
        self.write_inline
            || (self.small_write_inline
                && bio.len_bytes() <= MAX_INLINE_WRITE_SIZE.value()
                && bio.is_sync())
    }
}

/// Returns the flags of both workqueues.
fn common_flags(options: &Options) -> Flags {
    if options.high_priority {
        Flags::SYSFS | Flags::HIGHPRI
    } else {
        Flags::SYSFS
    }
}

/// Returns the other flags of the workqueue that encrypts and decrypts, and the maximum number of
/// its items that run at the same time: on each CPU, or on all CPUs if it is unbound.
fn crypt_flags(options: &Options) -> (Flags, u32) {
    if options.same_cpu_crypt {
        (Flags::PERCPU | Flags::CPU_INTENSIVE, 1)
    } else {
        (Flags::UNBOUND, cpu::nr_cpu_ids())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_dispatch)]
mod tests {
    use super::*;

    #[test]
    fn options_select_the_flags_of_the_queues() {
        let options = Options::DEFAULT;
        assert_eq!(common_flags(&options), Flags::SYSFS);
        assert_eq!(crypt_flags(&options), (Flags::UNBOUND, cpu::nr_cpu_ids()));

        let options = Options {
            high_priority: true,
            same_cpu_crypt: true,
            ..options
        };
        assert_eq!(common_flags(&options), Flags::SYSFS | Flags::HIGHPRI);
        let per_cpu = Flags::PERCPU | Flags::CPU_INTENSIVE;
        assert_eq!(crypt_flags(&options), (per_cpu, 1));
    }
}
