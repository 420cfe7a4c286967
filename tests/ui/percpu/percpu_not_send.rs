// SPDX-License-Identifier: GPL-2.0

//! Tasks take turns with a value, and one drops all, so it must be `Send` for that.

use kscale::percpu::PerCpu;

fn assert_send<T: Send>() {}
fn assert_sync<T: Sync>() {}

fn sends() {
    assert_send::<PerCpu<*mut u8>>();
}

fn shares() {
    assert_sync::<PerCpu<*mut u8>>();
}
