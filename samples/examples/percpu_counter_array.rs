// SPDX-License-Identifier: GPL-2.0

//! Counts pages of two kinds, with a batch that makes updates cheap, and tasks per state.

use kernel::{
    cpu::nr_cpu_ids,
    prelude::*, //
};

use core::{
    cmp::Ordering,
    num::NonZeroU16, //
};

use kscale::percpu::counter::{
    LocalPerCpuCounter,
    PerCpuCounter,
    PerCpuCounterArray, //
};

const BATCH: NonZeroU16 = NonZeroU16::new(1024).unwrap();
const LIMIT_PAGES: i64 = 1 << 20;

pub(crate) fn example() -> Result {
    // Both counters are updated together, so their deltas share cache lines.
    let mut pages = KBox::try_pin_init(PerCpuCounterArray::<2>::new(0), GFP_KERNEL)?;
    let [dirty, written] = pages.as_array();
    let batch = BATCH.max(PerCpuCounter::default_batch());

    dirty.add_batch(64, batch);
    dirty.add_batch(-16, batch);
    written.add_batch(16, batch);

    if dirty.compare_batch(LIMIT_PAGES, batch) == Ordering::Greater {
        return Err(EBUSY);
    }
    // Reads one cache line. After a fold, the delta of this CPU is in the result.
    dirty.sync();
    let max_error = PerCpuCounter::error_bound(batch, nr_cpu_ids());
    pr_info!("{} +- {max_error} dirty pages\n", dirty.read_positive());
    pages.as_mut().set(1, 0)?;

    // These counters are read rarely: only a sum visits other CPUs.
    let mut tasks = KBox::try_pin_init(LocalPerCpuCounter::new(0), GFP_KERNEL)?;
    tasks.add(2);
    tasks.sub(1);
    pr_info!("{} tasks\n", tasks.sum_positive());
    tasks.as_mut().set(0);
    Ok(())
}
