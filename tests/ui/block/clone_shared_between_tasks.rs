// SPDX-License-Identifier: GPL-2.0

//! A clone may go to another task, but two must not have it at once.

use kscale::block::dm;

fn assert_sync<T: Sync>(_: &T) {}

fn shares<T: dm::Target>(clone: &dm::CloneBio<T>) {
    assert_sync(clone);
}
