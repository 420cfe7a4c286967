// SPDX-License-Identifier: GPL-2.0

//! An item that was removed may be freed once the guard is dropped.

use kscale::sync::srcu::{
    Domain,
    List,
    Normal, //
};

fn keeps(domain: &Domain<Normal>, list: &List<u32, Normal>, uses: fn(Option<&u32>)) {
    let guard = domain.read_lock();
    let first = list.walk(&guard).ok().and_then(|mut walk| walk.next());
    drop(guard);
    uses(first);
}
