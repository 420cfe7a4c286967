// SPDX-License-Identifier: GPL-2.0

//! A value must be dropped by the task that has it if it is not [`Send`], so it must not be sent.

use kernel::sync::MutexGuard;

use kscale::mm::mempool::{
    Kmalloc,
    Mempool,
    PoolBox, //
};

type Guards = Mempool<Kmalloc<MutexGuard<'static, u64>>>;

fn assert_send<T: Send>(_: T) {}

fn sends(guard: PoolBox<&'static Guards>) {
    assert_send(guard);
}
