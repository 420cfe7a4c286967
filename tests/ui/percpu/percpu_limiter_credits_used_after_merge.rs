// SPDX-License-Identifier: GPL-2.0

//! What was added to other credits is of these.

use kscale::percpu::limiter::Credits;

fn merges<'a>(mut credits: Credits<'a>, other: Credits<'a>) -> u64 {
    let _ = credits.merge(other);
    other.count()
}
