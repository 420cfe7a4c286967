// SPDX-License-Identifier: GPL-2.0

//! The submitter may write to the pages of a bio at any time, so they must not be a `&[u8]`.

use kscale::block::bio::Segment;

fn first_byte(segment: Segment<'_>) -> u8 {
    let bytes: &[u8] = &segment;
    bytes[0]
}
