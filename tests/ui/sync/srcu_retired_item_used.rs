// SPDX-License-Identifier: GPL-2.0

//! Readers may still see an item that was taken away from new ones.

use kscale::sync::srcu::{
    Normal,
    Retired, //
};

fn uses(retired: Retired<u32, Normal>) -> u32 {
    *retired
}
