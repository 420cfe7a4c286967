// SPDX-License-Identifier: GPL-2.0

//! What becomes of a bio must be true, so it must not be made but from the bio.

use kscale::block::dm;

fn makes_up<'a, T: dm::Target>() -> dm::MapResult<'a, T> {
    dm::MapResult {}
}
