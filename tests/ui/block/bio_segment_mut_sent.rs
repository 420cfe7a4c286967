// SPDX-License-Identifier: GPL-2.0

//! A segment must not go to another task, nor one that may be written.

use kscale::block::bio::SegmentMut;

fn assert_send<T: Send>(_: T) {}

fn sends(segment: SegmentMut<'static>) {
    assert_send(segment);
}
