// SPDX-License-Identifier: GPL-2.0

//! While a segment is used through a second one, it must not be used itself.

use kscale::block::bio::SegmentMut;

fn uses_both(mut segment: SegmentMut<'_>, uses: fn(SegmentMut<'_>)) {
    let second = segment.reborrow();
    let _ = segment.write_at(0, &[1]);
    uses(second);
}
