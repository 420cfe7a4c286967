// SPDX-License-Identifier: GPL-2.0

//! What a writer has replaced may be freed at any time.

use kscale::sync::srcu::{
    Item,
    Normal,
    PointerWriter, //
};

fn keeps(mut writer: PointerWriter<'_, u32, Normal>, item: Item<u32>, uses: fn(&u32)) {
    let value = &*writer;
    writer.replace(item).free_later();
    uses(value);
}
