// SPDX-License-Identifier: GPL-2.0

//! All values can be changed only by whoever has them for himself.

use kscale::percpu::PerCpu;

fn changes(numbers: &PerCpu<u64>) {
    numbers.iter_mut().for_each(|(_, mut number)| *number = 0);
}

fn keeps(numbers: &mut PerCpu<u64>) -> u64 {
    let number = numbers.raw_cpu();
    numbers.iter_mut().for_each(|(_, mut number)| *number = 0);
    *number
}
