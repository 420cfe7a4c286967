// SPDX-License-Identifier: GPL-2.0

//! Others may write once the guard is dropped.

use kscale::sync::rwsem::RwSemaphore;

fn keeps(rwsem: &RwSemaphore<u32>, uses: fn(&u32)) {
    let guard = rwsem.read();
    let value = &*guard;
    drop(guard);
    uses(value);
}
