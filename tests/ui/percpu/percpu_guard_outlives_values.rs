// SPDX-License-Identifier: GPL-2.0

//! What belongs to a CPU must not outlive the memory it is in.

use kernel::prelude::*;

use kscale::percpu::{
    PerCpu,
    PerCpuInts, //
};

fn drops(numbers: PerCpu<u64>) -> u64 {
    let guard = numbers.get_cpu();
    drop(numbers);
    *guard
}

fn returns() -> Result<impl Fn()> {
    let ints = PerCpuInts::<u64, 1>::new()?;
    let int = ints.at::<0>();
    Ok(move || int.inc())
}
