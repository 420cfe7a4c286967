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

/// The maximum length of the name of a check in an audit record, in bytes.
const MAX_OP_BYTES: usize = 127;

/// The name of a check, shortened to [`MAX_OP_BYTES`].
///
/// # Invariants
///
/// There is a NUL.
struct Op([u8; MAX_OP_BYTES + 1]);

impl Op {
    fn new(name: &CStr) -> Self {
        let mut bytes = [0; MAX_OP_BYTES + 1];
        let slots = bytes.iter_mut().take(MAX_OP_BYTES);
        for (slot, byte) in slots.zip(name.to_bytes()) {
            *slot = *byte;
        }
        // INVARIANT: The last byte is 0.
        Self(bytes)
    }
}

impl<T: Target> ReadClone<T> {
    /// Records the result of a check of a sector that was read. `op` names the check, and `is_ok`
    /// is its result.
    ///
    /// Spaces in `op` make the record hard to parse. The record has at most the first 127 bytes of
    /// `op`: in reclaim, the kernel warns of an allocation for a record of several MiB
    /// (`__alloc_frozen_pages_noprof()` in `mm/page_alloc.c`).
    ///
    /// Context: Process context. May sleep. Waits for a slow audit daemon.
    /// C: `dm_audit_log_bio()` in `drivers/md/dm-audit.c`.
    pub fn audit(&self, op: &CStr, sector: u64, is_ok: bool) {
        let module = self.target_name().as_char_ptr();
        let op = Op::new(op);

        // SAFETY: Both texts are C strings, by the type invariants of `Op`, and are only printed.
        // The clone is alive, and its device is a device of the target, see `CloneBio::read()`.
        unsafe {
            bindings::dm_audit_log_bio(module, op.0.as_ptr(), self.as_raw(), sector, is_ok.into())
        };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_audit)]
mod tests {
    use super::*;

    /// Returns the text of a name in a record.
    fn recorded(name: &CStr) -> Result<KVec<u8>> {
        let op = Op::new(name);
        let text = CStr::from_bytes_until_nul(&op.0).map_err(|_| EINVAL)?;
        let mut bytes = KVec::new();
        bytes.extend_from_slice(text.to_bytes(), GFP_KERNEL)?;
        Ok(bytes)
    }

    #[test]
    fn names_of_checks_are_shortened() -> Result {
        let mut long = [b'x'; MAX_OP_BYTES + 3];
        long[0] = b'y';
        long[MAX_OP_BYTES + 2] = 0;
        let name = CStr::from_bytes_with_nul(&long).map_err(|_| EINVAL)?;

        assert_eq!(&recorded(name)?[..], &long[..MAX_OP_BYTES]);
        assert_eq!(&recorded(c"integrity-aead")?[..], b"integrity-aead");
        assert_eq!(&recorded(c"")?[..], b"");
        Ok(())
    }
}
