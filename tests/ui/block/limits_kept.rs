// SPDX-License-Identifier: GPL-2.0

//! The limits are on the stack of device mapper, so they must not be kept.

use kscale::block::dm;

fn keeps(kept: &mut Option<&'static mut dm::Limits<'static>>, limits: &mut dm::Limits<'_>) {
    *kept = Some(limits);
}
