// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/percpu/limiter/pool.rs"]
mod pool;
