// SPDX-License-Identifier: GPL-2.0

//! Audit records of targets.
//!
//! Who watches a system for attacks may want to know which lines were made and refused, and which
//! sectors somebody changed. A target with [`Target::AUDITED`] has the former in the audit log, as
//! records of type `DM_CTRL`, and [`ReadClone::audit()`] makes one of the latter, of type `DM_EVENT`:
//!
//! ```text
//! module=rcrypt op=ctr ppid=1 pid=7 ... dev=252:0 error_msg='success' res=1
//! module=rcrypt op=integrity-aead dev=252:1 sector=9 res=0
//! ```
//!
//! `module` is the name that the target is registered under. While auditing is off nothing is recorded,
//! and without `CONFIG_DM_AUDIT` there is no code for it.
//!
//! C: `drivers/md/dm-audit.c`.

use kernel::prelude::*;

use crate::{
    bindings,
    block::dm::bio::integrity::ReadClone, //
};

use super::Target;

/// Records that a target was made.
///
/// # Safety
///
/// `ti` must be the target of a running `ctr`.
pub(super) unsafe fn made(ti: *mut bindings::dm_target) {
    // SAFETY: By this function's contract `ti` is alive, and with it its type and the name of that; its
    // table has a device, see `dm_table_create()` in `drivers/md/dm-table.c`.
    unsafe { bindings::dm_audit_log_ctr((*(*ti).type_).name, ti, 1) };
}

/// Records that a line was refused, and as the targets in C do, that what there was of it is gone.
///
/// # Safety
///
/// `ti` must be the target of a running `ctr`, with its message set.
pub(super) unsafe fn refused(ti: *mut bindings::dm_target) {
    // SAFETY: As in `made()`.
    unsafe { bindings::dm_audit_log_ctr((*(*ti).type_).name, ti, 0) };
    // SAFETY: By this function's contract.
    unsafe { gone(ti) };
}

/// Records that a target is gone.
///
/// # Safety
///
/// `ti` must be the target of a running `ctr` or `dtr`.
pub(super) unsafe fn gone(ti: *mut bindings::dm_target) {
    // SAFETY: As in `made()`; the device goes after its tables.
    unsafe { bindings::dm_audit_log_dtr((*(*ti).type_).name, ti, 1) };
}

impl<T: Target> ReadClone<T> {
    /// Records what was found out about a sector that was read: `op` names it, and `is_ok` tells whether
    /// it is good.
    ///
    /// Spaces in `op` make the record hard to read for programs.
    ///
    /// Context: Process context; sleeps, also for an audit daemon that lags behind. C:
    /// `dm_audit_log_bio()` in `drivers/md/dm-audit.c`.
    pub fn audit(&self, op: &CStr, sector: u64, is_ok: bool) {
        let module = self.target_name().as_char_ptr();

        // SAFETY: Both texts are C strings that are only printed. The clone is alive, and its device is
        // one of the target's, see `CloneBio::read()`.
        unsafe {
            bindings::dm_audit_log_bio(
                module,
                op.as_char_ptr(),
                self.as_raw(),
                sector,
                is_ok.into(),
            )
        };
    }
}
