// SPDX-License-Identifier: GPL-2.0

//! A value that is not [`Send`] must be dropped by the task that has it.

use kernel::sync::MutexGuard;

use kscale::mm::{
    boxed::Boxed,
    slab::{
        Cache,
        Memory, //
    }, //
};

fn assert_send<T: Send>(_: T) {}

fn sends(guard: Boxed<Memory<&'static Cache<MutexGuard<'static, u64>>>>) {
    assert_send(guard);
}
