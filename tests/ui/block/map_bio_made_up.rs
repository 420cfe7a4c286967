// SPDX-License-Identifier: GPL-2.0

//! A bio in `map` comes from device mapper, so it must not be made of nothing.

use kscale::block::dm;

fn makes_up<'a, T: dm::Target>() -> dm::MapBio<'a, T> {
    dm::MapBio {}
}
