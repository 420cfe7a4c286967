// SPDX-License-Identifier: GPL-2.0

//! Others read at the same time.

use kscale::sync::rwsem::RwSemaphore;

fn writes(rwsem: &RwSemaphore<u32>) {
    *rwsem.read() = 1;
}
