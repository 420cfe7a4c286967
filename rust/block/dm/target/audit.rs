// SPDX-License-Identifier: GPL-2.0

//! Audit records of targets.
//!
//! A target with [`Target::AUDITED`] records in the audit log each line that is constructed or
//! refused, and each target that is destroyed (type `DM_CTRL`). [`ReadClone::audit()`] records an
//! event of a sector, for example a failed integrity check (type `DM_EVENT`):
//!
//! ```text
//! module=rcrypt op=ctr ppid=1 pid=7 ... dev=252:0 error_msg='success' res=1
//! module=rcrypt op=integrity-aead dev=252:1 sector=9 res=0
//! ```
//!
//! `module` is the name that the target is registered under. While auditing is off nothing is
//! recorded. Without `CONFIG_DM_AUDIT` the code is compiled out.
//!
//! C: `drivers/md/dm-audit.c`.

use kernel::prelude::*;

use crate::{
    bindings,
    block::dm::bio::integrity::ReadClone, //
};

use super::Target;

/// Records that a target was constructed.
///
/// # Safety
///
/// `ti` must be the target of a running `ctr`.
pub(super) unsafe fn made(ti: *mut bindings::dm_target) {
    // SAFETY: By this function's contract `ti` is alive, and so are its type and the type's name.
    // Its table has a device, see `dm_table_create()` in `drivers/md/dm-table.c`.
    unsafe { bindings::dm_audit_log_ctr((*(*ti).type_).name, ti, 1) };
}

/// Records that a line was refused, and that its target was destroyed, as the C targets do.
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

/// Records that a target was destroyed.
///
/// # Safety
///
/// `ti` must be the target of a running `ctr` or `dtr`.
pub(super) unsafe fn gone(ti: *mut bindings::dm_target) {
    // SAFETY: As in `made()`; the device outlives its tables.
    unsafe { bindings::dm_audit_log_dtr((*(*ti).type_).name, ti, 1) };
}

impl<T: Target> ReadClone<T> {
    /// Records the result of a check of a sector that was read. `op` names the check, and `is_ok`
    /// is its result.
    ///
    /// Spaces in `op` make the record hard to parse.
    ///
    /// Context: Process context. May sleep. Waits for a slow audit daemon.
    /// C: `dm_audit_log_bio()` in `drivers/md/dm-audit.c`.
    pub fn audit(&self, op: &CStr, sector: u64, is_ok: bool) {
        let module = self.target_name().as_char_ptr();

        // SAFETY: Both texts are C strings that are only printed. The clone is alive, and its
        // device is a device of the target, see `CloneBio::read()`.
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
