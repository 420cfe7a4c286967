// SPDX-License-Identifier: GPL-2.0

//! A bio in `end_io` must not go to another task unless it is deferred.

use kscale::block::dm;

fn assert_send<T: Send>(_: T) {}

fn sends<T: dm::Target>(bio: dm::EndBio<'static, T>) {
    assert_send(bio);
}
