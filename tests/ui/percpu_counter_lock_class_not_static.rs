// SPDX-License-Identifier: GPL-2.0

//! Lockdep keeps the class of a counter's lock, so that must be static.

use kernel::{
    prelude::*,
    sync::LockClassKey, //
};

use kscale::percpu_counter::PerCpuCounter;

fn creates(key: Pin<&LockClassKey>) -> impl PinInit<PerCpuCounter, Error> {
    PerCpuCounter::new(0, key)
}
