// SPDX-License-Identifier: GPL-2.0

//! An update while a counter is set could get lost, so nobody else may have the array then.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounterArray;

fn sets(counters: &mut Pin<KBox<PerCpuCounterArray<2>>>) -> Result {
    let [first, _] = counters.as_array();
    counters.as_mut().set(0, 1)?;
    first.add(1);
    Ok(())
}
