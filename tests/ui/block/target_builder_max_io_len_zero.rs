// SPDX-License-Identifier: GPL-2.0

//! For device mapper, 0 means no maximum, so it must not be the maximum.

use kscale::block::dm;

fn limits(builder: &mut dm::TargetBuilder<'_>) {
    builder.set_max_io_len(0);
}
