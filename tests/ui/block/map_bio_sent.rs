// SPDX-License-Identifier: GPL-2.0

//! A bio in `map` must not go to another task unless it is deferred.

use kscale::block::dm;

fn assert_send<T: Send>(_: T) {}

fn sends<T: dm::Target>(bio: dm::MapBio<'static, T>) {
    assert_send(bio);
}
