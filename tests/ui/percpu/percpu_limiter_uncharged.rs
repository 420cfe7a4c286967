// SPDX-License-Identifier: GPL-2.0

//! Credits that prove themselves go back by that alone: nothing else gives any to their limiter.

use kscale::percpu::limiter::CreditLimiter;

fn gives_back(limiter: &CreditLimiter) {
    limiter.uncharge(1);
}
