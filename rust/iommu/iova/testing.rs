// SPDX-License-Identifier: GPL-2.0

//! What the tests of domains share.

use kernel::prelude::*;

use super::{
    Alignment,
    Domain, //
};

/// Takes single page frames up to a limit until there are no more, and returns their numbers.
///
/// They are free again then.
pub(super) fn all_of(domain: &Domain, limit_pfn: usize) -> Result<KVec<usize>> {
    let mut ranges = KVec::new();
    let mut pfns = KVec::new();

    loop {
        match domain.alloc(1, limit_pfn, Alignment::Any) {
            Ok(range) => {
                pfns.push(range.pfn(), GFP_KERNEL)?;
                ranges.push(range, GFP_KERNEL)?;
            }
            Err(error) if error == ENOMEM => return Ok(pfns),
            Err(error) => return Err(error),
        }
    }
}
