// SPDX-License-Identifier: GPL-2.0

//! What was in an item before it was swapped is what readers see since.

use kscale::sync::srcu::{
    Item,
    Normal,
    PointerWriter, //
};

fn keeps(mut writer: PointerWriter<'_, u32, Normal>, item: &mut Item<u32>, uses: fn(&mut u32)) {
    let value = &mut **item;
    writer.swap(item);
    uses(value);
}
