// SPDX-License-Identifier: GPL-2.0

//! Leaks memory or guards, or removes values in a walk, to test that the kernel reports it.

#![forbid(unsafe_code)]

use kernel::{
    interrupt::local_interrupt_disable,
    page::PAGE_SIZE,
    prelude::*, //
};

use core::mem::forget;

use kscale::{
    percpu::preempt_disable,
    sync::rcu_list::{
        new_list,
        List, //
    }, //
};

module! {
    type: LeakyModule,
    name: "leaky",
    authors: ["The kscale authors"],
    description: "Leaks, for tests",
    license: "GPL",
    params: {
        what: u8 {
            default: 0,
            description: "0: leak memory, 1: a preemption guard, 2: an interrupt guard of the kernel; 3, 4: remove in a walk",
        },
    },
}

struct LeakyModule;

/// Removes a value of a list while it walks the list. Two tasks that do so may deadlock.
fn remove_in_walk(f: fn(&List<u32>, &mut dyn FnMut())) -> Result {
    let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
    let mut entry = Some(list.push_front(1, GFP_KERNEL)?);
    let _at = list.push_front(2, GFP_KERNEL)?;

    f(&list, &mut || {
        if let Some(entry) = entry.take() {
            drop(list.remove(entry));
        }
    });
    Ok(())
}

impl kernel::Module for LeakyModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        match module_parameters::what.value() {
            // Larger than the objects of `kmalloc()`'s caches: sheaves of free objects still refer to
            // hundreds that are allocated again. More than one: a stack may refer to the last.
            0 => {
                for filler in 1..=8 {
                    forget(KVec::<u8>::from_elem(filler, 4 * PAGE_SIZE, GFP_KERNEL)?);
                }
            }
            1 => forget(preempt_disable()),
            2 => forget(local_interrupt_disable()),
            3 => remove_in_walk(|list, remove| list.for_each(|_| remove()))?,
            4 => remove_in_walk(|list, remove| {
                let mut walk = list.walk();
                while walk.next().is_some() {
                    remove();
                }
            })?,
            _ => return Err(EINVAL),
        }
        Ok(LeakyModule)
    }
}
