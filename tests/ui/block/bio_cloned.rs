// SPDX-License-Identifier: GPL-2.0

//! A bio has one owner, so a second handle to it must not be made.

use kscale::block::dm;

fn clones<C: Clone>(_: C) {}

fn clones_bio<T: dm::Target>(bio: dm::Bio<T>) {
    clones(bio);
}
