// SPDX-License-Identifier: GPL-2.0

//! Of memory that may be written there must be one segment only.

use kscale::block::bio::SegmentMut;

fn doubles<'a>(segment: SegmentMut<'a>) -> (SegmentMut<'a>, SegmentMut<'a>) {
    (segment, segment)
}
