// SPDX-License-Identifier: GPL-2.0

//! Errors of safe code that C returns to user space.

use kernel::{
    ffi::c_int,
    prelude::*, //
};

/// The first error number that user space does not have, see `include/linux/errno.h`.
const FIRST_INTERNAL: c_int = 512;

/// Returns an error as C does, and [`EIO`] for those that only the kernel has.
///
/// The kernel acts upon these: it is a bug if a write returns `EIOCBQUEUED` (`new_sync_write()` in
/// `fs/read_write.c`), and io_uring then waits for a completion (`io_rw_done()` in
/// `io_uring/rw.c`).
pub(crate) fn user_errno(error: Error) -> c_int {
    let errno = error.to_errno();
    if errno <= -FIRST_INTERNAL {
        EIO.to_errno()
    } else {
        errno
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_errno)]
mod tests {
    use super::*;

    #[test]
    fn internal_errors_are_not_returned() {
        for (error, expected) in [
            (EINVAL, EINVAL),
            (EAGAIN, EAGAIN),
            (ERESTARTSYS, EIO),
            (EIOCBQUEUED, EIO),
        ] {
            assert_eq!(user_errno(error), expected.to_errno());
        }
    }
}
