// SPDX-License-Identifier: GPL-2.0

//! Credits go back to their limiter, so it must still be there.

use kscale::percpu::limiter::CreditLimiter;

fn drops_first(limiter: CreditLimiter) {
    let credits = limiter.acquire(1);
    drop(limiter);
    drop(credits);
}
