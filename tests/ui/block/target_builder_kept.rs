// SPDX-License-Identifier: GPL-2.0

//! The line of a table is under construction in `ctr` only, so it must not be kept.

use kscale::block::dm;

fn keeps(
    kept: &mut Option<&'static mut dm::TargetBuilder<'static>>,
    builder: &mut dm::TargetBuilder<'_>,
) {
    *kept = Some(builder);
}
