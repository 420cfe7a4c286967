// SPDX-License-Identifier: GPL-2.0

//! The per-bio data of the first bio of a list goes with the bio, which may be removed and end.

use kscale::block::dm;

fn keeps<T: dm::Target>(list: &mut dm::BioList<T>, uses: fn(&mut T::PerBio)) {
    if let Some(data) = list.first_data() {
        drop(list.pop());
        uses(data);
    }
}
