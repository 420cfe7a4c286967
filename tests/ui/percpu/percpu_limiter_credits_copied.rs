// SPDX-License-Identifier: GPL-2.0

//! Each credit goes back once, so there must not be two of one.

use kscale::percpu::limiter::Credits;

fn copies(credits: Credits<'_>) {
    drop(credits);
    drop(credits);
}
