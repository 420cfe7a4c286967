// SPDX-License-Identifier: GPL-2.0

//! Not all flags are fit for all callers, so they must not be made of a number.

use kscale::mm::gfp::Gfp;

fn makes_up() -> Gfp {
    Gfp(!0)
}
