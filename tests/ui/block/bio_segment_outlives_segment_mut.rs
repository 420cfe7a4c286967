// SPDX-License-Identifier: GPL-2.0

//! Memory that was lent for reading must not be written, so the loan must end first.

use kscale::block::bio::{
    Segment,
    SegmentMut, //
};

fn lends<'a>(segment: SegmentMut<'a>) -> Segment<'a> {
    segment.as_segment()
}
