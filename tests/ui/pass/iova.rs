// SPDX-License-Identifier: GPL-2.0

//! A domain, and ranges of it, each used by its owner.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::iova::{
    Alignment,
    Builder,
    CachedDomain,
    Domain,
    Range,
    WhenFull, //
};

/// Makes a domain, step by step.
pub fn domain() -> Result<CachedDomain> {
    let mut builder = Builder::new(4096, 1)?;
    builder.reserve(1..=2)?;
    let domain: Domain = builder.build();
    drop(domain.alloc(1, 100, Alignment::Any)?);
    Ok(domain.init_rcaches()?)
}

/// Takes ranges, and gives them back in the reverse order.
pub fn ranges<'a>(domain: &'a CachedDomain, kept: &Arc<CachedDomain>) -> Result<Range<&'a Domain>> {
    let counting: Range<Arc<CachedDomain>> = kept.alloc_fast_arc(1, 100, WhenFull::Fail)?;
    let fast: Range<&CachedDomain> = domain.alloc_fast(1, 100, WhenFull::Fail)?;
    drop(fast);
    drop(counting);
    domain.alloc(1, 100, Alignment::Any)
}
