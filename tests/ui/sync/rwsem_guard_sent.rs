// SPDX-License-Identifier: GPL-2.0

//! A semaphore is released by the task that took it.

use kscale::sync::rwsem::RwSemaphore;

fn sends<T: Send>(_: T) {}

fn gives_away(rwsem: &RwSemaphore<u32>) {
    sends(rwsem.read());
}
