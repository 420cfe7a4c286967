// SPDX-License-Identifier: GPL-2.0

//! Functions that the tests of domains share.

use kernel::prelude::*;

use super::{
    Alignment,
    Domain, //
};

/// Allocates single page frames up to a limit until that fails, frees them, and returns their
/// numbers.
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
