// SPDX-License-Identifier: GPL-2.0

//! Credits that were not taken from a limiter must not be given back to it.

use kscale::percpu_limiter::{
    CreditLimiter,
    Credits, //
};

fn makes_up(limiter: &CreditLimiter) -> Credits<'_> {
    Credits { limiter, count: 7 }
}
