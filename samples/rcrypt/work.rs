// SPDX-License-Identifier: GPL-2.0

//! Who does the work: what options of the table line and the device below decide.
//!
//! | | encrypted or decrypted | sent to the device |
//! | --- | --- | --- |
//! | by default | by any worker, on any CPU | by that worker, or if the device has heads to move, by a worker that sorts |
//! | `same_cpu_crypt` | by a worker of the CPU that the bio came to | the same |
//! | `submit_from_crypt_cpus` | the same | by the worker that encrypted |
//! | `no_write_workqueue`, or a zoned device | by the writer | by the writer |
//! | `no_read_workqueue` | where the device ended the read, in softirq context if that was a hard interrupt | |
//!
//! `high_priority` is about workers.
//!
//! The one difference to dm-crypt: there a write is sorted whatever the device is. Sorting is for disks
//! with heads. Elsewhere it costs another switch of tasks, and one CPU sends what many encrypted.

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

/// Makes names of workqueues unique: two tables of one device have the same name.
static NEXT_ID: Atomic<u32> = Atomic::new(1);

/// Who does the work of a target.
pub(crate) struct Work {
    /// Where bios are encrypted and decrypted.
    pub(crate) crypt: Workqueue,
    /// A read is decrypted where the device ended it.
    pub(crate) decrypts_at_once: bool,
    /// A write is encrypted and sent where it came from.
    pub(crate) encrypts_at_once: bool,
    /// A write is sent by a worker that sorts.
    pub(crate) sends_in_order: bool,
}

impl Work {
    /// Decides for a target above `device`, and makes its workqueues: that of `Work`, and one for
    /// who sends in order.
    ///
    /// Where reads end nobody may sleep, so if decryption `may_sleep`, workers do it whatever the option.
    /// `letter` is the first of the queues' names, which are `kcryptd` and so on in dm-crypt.
    pub(crate) fn new(
        options: &Options,
        table: &dm::Table<'_>,
        device: dm::Device,
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
