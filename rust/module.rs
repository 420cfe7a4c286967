// SPDX-License-Identifier: GPL-2.0

//! Modules: their parameters, and cleanup when one is unloaded.
//!
//! [`param`] has parameters that may change while the module is loaded. [`cleanup`] ends registrations
//! that a module leaked, before its code is freed.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

pub(crate) mod cleanup;
pub mod param;
