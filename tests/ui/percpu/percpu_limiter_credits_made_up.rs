// SPDX-License-Identifier: GPL-2.0

//! Credits that were not taken from a limiter must not be given back to it.

use kscale::percpu::limiter::Credits;

fn makes_up(credits: &mut Credits<'_>) {
    credits.count = 7;
}
