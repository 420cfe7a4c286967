// SPDX-License-Identifier: GPL-2.0

//! What becomes of a bio must be true, so it must not be changed.

use kscale::block::dm;

fn changes<T: dm::Target>(map: &mut dm::MapResult<'_, T>) {
    map.code = 0;
}
