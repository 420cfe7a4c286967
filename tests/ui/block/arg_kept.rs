// SPDX-License-Identifier: GPL-2.0

//! The arguments are freed when `ctr` returns, so a target must not keep one.

use kernel::prelude::*;

use kscale::block::dm;

fn path(args: &mut dm::Args<'_>) -> Result<&'static CStr, dm::CtrError> {
    args.required(c"missing path")
}
