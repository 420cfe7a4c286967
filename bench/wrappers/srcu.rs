// SPDX-License-Identifier: GPL-2.0

//! Calls of `srcu` for readers.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*, //
};

use kscale::sync::srcu::{
    new_domain,
    new_pointer,
    Domain,
    Fast,
    FastUpDown,
    Item,
    Normal,
    Pointer, //
};

#[pin_data]
#[repr(C)]
pub(crate) struct Bench {
    normal: Domain<Normal>,
    fast: Domain<Fast>,
    up_down: Domain<FastUpDown>,
    #[pin]
    pointer: Pointer<u64, Fast>,
}

impl Bench {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            let fast: Domain<Fast> = new_domain!("bench")?;
            let item = Item::new(3, GFP_KERNEL)?;

            Ok(try_pin_init!(Self {
                normal: new_domain!("bench")?,
                up_down: new_domain!("bench")?,
                pointer <- new_pointer!(fast.clone(), item),
                fast,
            }))
        })
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"srcu_read_lock" => |b| drop(b.normal.read_lock()),
        c"srcu_read_lock_fast" => |b| drop(b.fast.read_lock()),
        c"srcu_read_lock_fast_updown" => |b| drop(b.up_down.read_lock()),
        c"srcu_down_read" => |b| drop(b.normal.down_read()),
        c"srcu_down_read_fast" => |b| drop(b.up_down.down_read()),
        c"srcu_dereference" => |b| *b.pointer.read(),
        c"srcu_dereference_guard" => |b| {
            let guard = b.fast.read_lock();
            b.pointer.load(&guard).copied().unwrap_or(0)
        },
    }
}
