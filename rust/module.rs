// SPDX-License-Identifier: GPL-2.0

//! Module parameters, and cleanup when a module is unloaded.
//!
//! [`param`] has parameters that may change while the module is loaded. `cleanup` and `teardown`
//! end leaked registrations of a module before the kernel frees the module's code. `code` tells
//! which functions are code of a module.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

pub(crate) mod cleanup;
pub(crate) mod code;
pub mod param;
pub(crate) mod teardown;
