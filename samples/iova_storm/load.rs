// SPDX-License-Identifier: GPL-2.0

//! Ways to allocate ranges, and the load for tasks on real CPUs.

use core::str::SplitAsciiWhitespace;

use kscale::iommu::iova::magazine::Policy;

use super::workload::MAX_SIZES;

/// A way to allocate ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The domain's tree.
    Tree,
    /// The kernel's own caches.
    Rcaches,
    /// Magazines of this library.
    Magazines(Policy),
}

impl Way {
    pub(crate) const ALL: [Self; 7] = [
        Self::Tree,
        Self::Rcaches,
        Self::Magazines(Policy::FixedDrop),
        Self::Magazines(Policy::FixedFlush),
        Self::Magazines(Policy::Scaled),
        Self::Magazines(Policy::Trimmed),
        Self::Magazines(Policy::Adaptive),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Rcaches => "rcaches",
            Self::Magazines(Policy::FixedDrop) => "fixed_drop",
            Self::Magazines(Policy::FixedFlush) => "fixed_flush",
            Self::Magazines(Policy::Scaled) => "scaled",
            Self::Magazines(Policy::Trimmed) => "trimmed",
            Self::Magazines(Policy::Adaptive) => "adaptive",
        }
    }
}

/// Returns the ways with the given name, or all ways for `all`.
pub(crate) fn ways(name: &str) -> Option<impl Iterator<Item = Way> + '_> {
    let fits = move |way: &Way| name == "all" || way.name() == name;
    Way::ALL
        .iter()
        .any(fits)
        .then(|| Way::ALL.into_iter().filter(fits))
}

/// The load of tasks on real CPUs.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) tasks: usize,
    pub(crate) sizes: usize,
    /// Duration of each way, in milliseconds.
    pub(crate) ms: i64,
}

impl Load {
    /// Parses `<name>=<number> ...`.
    pub(crate) fn parse(words: SplitAsciiWhitespace<'_>) -> Option<Self> {
        let mut load = Self {
            tasks: 4,
            sizes: 1,
            ms: 1000,
        };
        for word in words {
            let (name, value) = word.split_once('=')?;
            match name {
                "tasks" => load.tasks = value.parse().ok()?,
                "sizes" => load.sizes = value.parse().ok()?,
                "ms" => load.ms = value.parse().ok()?,
                _ => return None,
            }
        }
        let is_sound = (1..=64).contains(&load.tasks)
            && (1..=MAX_SIZES).contains(&load.sizes)
            && (1..=600_000).contains(&load.ms);
        is_sound.then_some(load)
    }
}
