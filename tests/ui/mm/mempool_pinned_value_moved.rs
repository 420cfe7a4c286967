// SPDX-License-Identifier: GPL-2.0

//! A value that is pinned must stay where it is.

use kernel::prelude::*;

use kscale::{
    mm::mempool::{
        Kmalloc,
        Mempool,
        PoolBox, //
    },
    percpu::counter::PerCpuCounter, //
};

type Counters = Mempool<Kmalloc<PerCpuCounter>>;

fn swaps(mut first: Pin<PoolBox<&Counters>>, mut second: Pin<PoolBox<&Counters>>) {
    core::mem::swap(&mut *first, &mut *second);
}
