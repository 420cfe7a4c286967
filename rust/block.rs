// SPDX-License-Identifier: GPL-2.0

//! The block layer: bios, and device-mapper targets that handle them.
//!
//! [`bio`] has the parts of a bio: operations, results, segments and integrity data. [`dm`] has
//! targets, which map the bios of a mapped device to the devices below.
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/device-mapper.h`](srctree/include/linux/device-mapper.h)

pub mod bio;
pub mod dm;
