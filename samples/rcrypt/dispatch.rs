// SPDX-License-Identifier: GPL-2.0

//! The task and CPU that process a bio, by table options and backing device.
//!
//! | | encrypted or decrypted by | sent to the device by |
//! | --- | --- | --- |
//! | default | any worker, on any CPU | that worker; for a rotational device, a worker that sorts by sector |
//! | `same_cpu_crypt` | a worker on the CPU that queued the bio | as by default |
//! | `submit_from_crypt_cpus` | as by default | the worker that encrypted |
//! | `no_write_workqueue`, or a zoned device | the submitter | the submitter |
//! | `no_read_workqueue` | the completion of the read; a softirq if that is a hard interrupt | |
//!
//! `high_priority` makes the workqueues `WQ_HIGHPRI`.
//!
//! This differs from dm-crypt in one point: dm-crypt sorts writes to every device. Sorting helps
//! rotational devices only. For other devices it adds a context switch, and a single CPU submits
//! the writes that many CPUs encrypted.

use kernel::{
    cpu,
    prelude::*,
    str::CString,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use kscale::{
    block::dm::{
        self,
        CtrError, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use crate::options::Options;

/// Makes the names of workqueues unique: the two tables of a device have the same device name.
static NEXT_ID: Atomic<u32> = Atomic::new(1);

/// The workqueue and the options that decide which task processes a bio.
pub(crate) struct Work {
    /// Encrypts and decrypts bios.
    pub(crate) crypt: Workqueue,
    /// The completion of a read decrypts it.
    pub(crate) decrypts_at_once: bool,
    /// The submitter of a write encrypts and sends it.
    pub(crate) encrypts_at_once: bool,
    /// A worker that sorts by sector sends writes.
    pub(crate) sends_in_order: bool,
}

impl Work {
    /// Selects the options for a target on `device` and allocates its two workqueues: the one in
    /// `Work` and the one that sends writes in order.
    ///
    /// Completions run in atomic context. If decryption `may_sleep`, workers decrypt even with
    /// `no_read_workqueue`. `letter` is the first letter of the workqueue names; in dm-crypt it is
    /// `k`, as in `kcryptd`.
    pub(crate) fn new(
        options: &Options,
        table: &dm::TargetBuilder<'_>,
        device: dm::DeviceId,
        may_sleep: bool,
        letter: char,
    ) -> Result<(Self, Workqueue), CtrError> {
        let name = table.device_name().to_str().unwrap_or_default();
        let id = NEXT_ID.fetch_add(1, Relaxed);
        let mut common = Flags::SYSFS;
        if options.high_priority {
            common = common | Flags::HIGHPRI;
        }

        let (flags, max_active) = if options.same_cpu_crypt {
            (Flags::PERCPU | Flags::CPU_INTENSIVE, 1)
        } else {
            (Flags::UNBOUND, cpu::nr_cpu_ids())
        };
        let crypt = CString::try_from_fmt(fmt!("{letter}cryptd-{name}-{id}"))?;
        let crypt = Workqueue::new(&crypt, common | flags, max_active)
            .map_err(|error| CtrError::new(c"Couldn't create kcryptd queue", error))?;
        let send = CString::try_from_fmt(fmt!("{letter}cryptd_write-{name}-{id}"))?;
        let send = Workqueue::new(&send, common | Flags::UNBOUND, 1)
            .map_err(|error| CtrError::new(c"Couldn't spawn write thread", error))?;

        let encrypts_at_once = options.no_write_workqueue;
        let this = Self {
            crypt,
            decrypts_at_once: options.no_read_workqueue && !may_sleep,
            encrypts_at_once,
            sends_in_order: table.is_rotational(device)
                && !encrypts_at_once
                && !options.submit_from_crypt_cpus,
        };
        Ok((this, send))
    }
}
