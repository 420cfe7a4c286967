// SPDX-License-Identifier: GPL-2.0

//! C is called by the library only, so its bindings must not be used elsewhere.

fn ends(bio: *mut kscale::bindings::bio) {
    unsafe { kscale::bindings::bio_endio(bio) };
}
