// SPDX-License-Identifier: GPL-2.0

//! Small functions and data structures that other modules use.
//!
//! C headers: [`include/linux/crc32.h`](srctree/include/linux/crc32.h),
//! [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h),
//! [`include/linux/random.h`](srctree/include/linux/random.h),
//! [`include/linux/printk.h`](srctree/include/linux/printk.h)

pub mod crc32;
pub mod debugfs;
pub(crate) mod errno;
pub(crate) mod name;
pub mod random;
pub mod ratelimit;
pub(crate) mod stack;
pub(crate) mod task_stack;
pub(crate) mod unique;
