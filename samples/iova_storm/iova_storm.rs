// SPDX-License-Identifier: GPL-2.0

//! IOVA sample: the effect of the depot policy on a machine with many CPUs.
//!
//! Many CPUs allocate ranges for their I/O and unmap them into flush queues. The flush queue timer
//! frees the ranges of all CPUs on a single CPU. The load is that of the patch "iommu/iova: Flush
//! CPU rcache for when a depot fills". It runs on up to 256 virtual CPUs, with equal results on
//! every machine, or on the real CPUs, to measure the cost of locks.
//!
//! ```sh
//! cd /sys/kernel/debug/iova_storm
//! echo 'all cpus=64 sizes=1' >virtual      # or one policy: 'adaptive cpus=64'
//! cat result
//! echo 'all tasks=4 ms=500' >real          # runs a load to its end
//! cat result
//! ```
//!
//! `docs/iova_storm.md` has a tour.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::lib::debugfs::Dir;

mod files;
mod load;
mod real_cpus;
mod recovery;
mod results;
mod virtual_cpus;
mod workload;

use files::Storms;

module! {
    type: StormModule,
    name: "iova_storm",
    authors: ["The kscale authors"],
    description: "IOVA sample: policies of depots under a storm",
    license: "GPL",
}

struct StormModule {
    _files: Dir<Storms>,
}

impl kernel::Module for StormModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let storms = Arc::pin_init(Storms::new(), GFP_KERNEL)?;
        Ok(Self {
            _files: Dir::new(c"iova_storm", storms)?,
        })
    }
}
