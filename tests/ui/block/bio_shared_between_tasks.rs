// SPDX-License-Identifier: GPL-2.0

//! A bio may go to another task, but two must not have it at once.

use kscale::block::dm;

fn assert_sync<T: Sync>(_: &T) {}

fn shares<T: dm::Target>(bio: &dm::Bio<T>) {
    assert_sync(bio);
}
