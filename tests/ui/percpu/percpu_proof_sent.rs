// SPDX-License-Identifier: GPL-2.0

//! What keeps a task on its CPU must not leave the task.

use kscale::percpu::{
    CpuGuard,
    InterruptsDisabled,
    PreemptDisabled, //
};

fn assert_send<T: Send>() {}
fn assert_sync<T: Sync>() {}

fn sends<'a>() {
    assert_send::<InterruptsDisabled>();
    assert_send::<PreemptDisabled>();
    assert_send::<CpuGuard<'a, u64>>();
}

fn shares() {
    assert_sync::<InterruptsDisabled>();
}
