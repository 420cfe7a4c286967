// SPDX-License-Identifier: GPL-2.0

//! Calls of `percpu_counter`.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*, //
};

use core::num::NonZeroU16;

use kscale::percpu::counter::{
    LocalPerCpuCounter,
    PerCpuCounter,
    PerCpuCounterArray, //
};

/// A batch other than the default.
const BATCH: NonZeroU16 = match NonZeroU16::new(64) {
    Some(batch) => batch,
    None => NonZeroU16::MIN,
};

/// A value far from the count.
const FAR: i64 = 1 << 40;

/// The order of the fields is that of the twin, because the cost of an address depends on its
/// offset.
#[pin_data]
#[repr(C)]
pub(crate) struct Bench {
    #[pin]
    counter: PerCpuCounter,
    #[pin]
    local: LocalPerCpuCounter,
    /// A counter that never changes.
    #[pin]
    still: PerCpuCounter,
    #[pin]
    array: PerCpuCounterArray<4>,
}

impl Bench {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            counter <- PerCpuCounter::new(0),
            local <- LocalPerCpuCounter::new(0),
            still <- PerCpuCounter::new(0),
            array <- PerCpuCounterArray::new(0),
        })
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"percpu_counter_add" => |b| b.counter.add(1),
        c"percpu_counter_sub" => |b| b.counter.sub(1),
        c"percpu_counter_add_batch" => |b| b.counter.add_batch(1, BATCH),
        c"percpu_counter_add_local" => |b| b.local.add(1),
        c"percpu_counter_read" => |b| b.counter.read(),
        c"percpu_counter_read_positive" => |b| b.counter.read_positive(),
        c"percpu_counter_sum" => |b| b.counter.sum(),
        c"percpu_counter_sum_positive" => |b| b.counter.sum_positive(),
        c"percpu_counter_compare_far" => |b| b.still.compare(FAR).is_ge(),
        c"percpu_counter_compare_near" => |b| b.still.compare(1).is_ge(),
        c"percpu_counter_compare_batch" => |b| b.still.compare_batch(FAR, BATCH).is_ge(),
        c"percpu_counter_compare_approx" => |b| b.still.compare_approx(FAR).is_ge(),
        c"percpu_counter_sum_local" => |b| b.local.sum(),
        c"percpu_counter_add_array" => |b| b.array.as_array()[2].add(1),
        c"percpu_counter_sync" => |b| b.counter.sync(),
    }
}
