// SPDX-License-Identifier: GPL-2.0

//! Domains, pointers, lists and semaphores, each used as it should be.

use kernel::{
    prelude::*,
    workqueue, //
};

use core::cell::Cell;

use kscale::sync::{
    rcu_list,
    rwsem::RwSemaphore,
    srcu::{
        Domain,
        Fast,
        FastUpDown,
        Item,
        List,
        Normal,
        Pointer,
        Retired, //
    }, //
};

/// Drops a guard in another task.
pub fn down_read(domain: Domain<FastUpDown>) -> Result {
    let guard = domain.into_down_read();
    workqueue::system().try_spawn(GFP_KERNEL, move || drop(guard))?;
    Ok(())
}

/// Loads under guards of several kinds.
pub fn load(pointer: &Pointer<u32, Normal>) -> Result<u32> {
    let domain = pointer.domain();
    let guard = domain.read_lock();
    let other = domain.down_read();

    Ok(*pointer.load(&guard)? + *pointer.load(&other)? + *pointer.read())
}

/// Replaces a value, and frees the old one without waiting.
pub fn replace(pointer: &Pointer<u32, Fast>, item: Item<u32>) {
    let mut writer = pointer.lock();
    let _ = *writer;
    writer.replace(item).free_later();
}

/// Waits for what callbacks could not free.
pub fn wait<'a>(retired: Retired<&'a Cell<u32>, Normal>) -> &'a Cell<u32> {
    retired.wait().into_inner()
}

/// Walks, and sleeps meanwhile.
pub fn walk(list: &List<u32, Normal>, rwsem: &RwSemaphore<u32>) -> Result<u32> {
    let guard = list.domain().read_lock();
    Ok(list.walk(&guard)?.map(|item| item + *rwsem.read()).sum())
}

/// Gives a value that is met to whoever wants it.
pub fn rcu_walk(list: &rcu_list::List<u32>, wants: fn(&u32)) {
    let mut walk = list.walk();
    while let Some(value) = walk.next() {
        wants(value);
    }
}
