// SPDX-License-Identifier: GPL-2.0

//! Whoever removes an item has it, so it must be [`Send`].

use kscale::sync::srcu::{
    List,
    Normal, //
};

use kernel::types::NotThreadSafe;

fn shares<T: Sync>() {}

fn shares_list() {
    shares::<List<NotThreadSafe, Normal>>();
}
