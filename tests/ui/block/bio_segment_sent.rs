// SPDX-License-Identifier: GPL-2.0

//! A segment must not go to another task, which may still use it when the bio has ended.

use kscale::block::bio::Segment;

fn assert_send<T: Send>(_: T) {}

fn sends(segment: Segment<'static>) {
    assert_send(segment);
}
