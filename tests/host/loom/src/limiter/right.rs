// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use crate::{
    atomic,
    hint, //
};

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/percpu/limiter/pacing.rs"]
mod pacing;
#[path = "../../../../../rust/percpu/limiter/pool.rs"]
mod pool;
