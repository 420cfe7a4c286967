// SPDX-License-Identifier: GPL-2.0

//! What a writer has swapped out is its item's, to be changed.

use kscale::sync::srcu::{
    Item,
    Normal,
    PointerWriter, //
};

fn keeps(mut writer: PointerWriter<'_, u32, Normal>, item: &mut Item<u32>, uses: fn(&u32)) {
    let value = &*writer;
    writer.swap(item);
    uses(value);
}
