// SPDX-License-Identifier: GPL-2.0

//! I/O virtual addresses, as the DMA layer of an IOMMU allocates them.
//!
//! [`iova`] has domains and ranges of addresses, caches of ranges, and flush queues.
//!
//! C header: [`include/linux/iova.h`](srctree/include/linux/iova.h)

pub mod iova;
