// SPDX-License-Identifier: GPL-2.0

//! Values are pinned.

use kernel::sync::SpinLock;

use kscale::percpu::PerCpu;

fn moves(locks: &mut PerCpu<SpinLock<u64>>, other: &mut SpinLock<u64>) {
    for (_, lock) in locks.iter_mut() {
        core::mem::swap(lock.get_mut(), other);
    }
}
