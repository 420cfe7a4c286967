// SPDX-License-Identifier: GPL-2.0

//! Examples: one short, complete program for each abstraction.
//!
//! The documentation of an abstraction includes its file, and a KUnit test runs it, so every
//! example works. Only test builds have this module.

#![forbid(unsafe_code)]

use kernel::prelude::*;

mod aead;
mod cpuhp;
mod debugfs;
#[cfg(CONFIG_IOMMU_IOVA)]
mod flush_queue;
#[cfg(CONFIG_IOMMU_IOVA)]
mod iova;
#[cfg(CONFIG_IOMMU_IOVA)]
mod iova_magazine;
mod list_lru;
mod mempool;
mod page_stash;
mod percpu;
mod percpu_counter;
mod percpu_counter_array;
mod percpu_limiter;
mod rcu_list;
mod rwsem;
mod shrinker;
mod skcipher;
mod slab;
mod srcu;
mod srcu_down_read;
mod srcu_grace_period;

module! {
    type: Examples,
    name: "kscale_examples",
    authors: ["The kscale authors"],
    description: "Examples of the documentation",
    license: "GPL",
}

struct Examples;

impl kernel::Module for Examples {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

#[kunit_tests(kscale_examples)]
mod tests {
    use super::*;

    #[test]
    fn aead() -> Result {
        aead::example()
    }

    #[test]
    fn cpuhp() -> Result {
        cpuhp::example()
    }

    #[test]
    fn debugfs() -> Result {
        debugfs::example()
    }

    #[test]
    fn list_lru() -> Result {
        list_lru::example()
    }

    #[test]
    fn mempool() -> Result {
        mempool::example()
    }

    #[test]
    fn page_stash() -> Result {
        page_stash::example()
    }

    #[test]
    fn percpu() -> Result {
        percpu::example()
    }

    #[test]
    fn percpu_counter() -> Result {
        percpu_counter::example()
    }

    #[test]
    fn percpu_counter_array() -> Result {
        percpu_counter_array::example()
    }

    #[test]
    fn percpu_limiter() -> Result {
        percpu_limiter::example()
    }

    #[test]
    fn rcu_list() -> Result {
        rcu_list::example()
    }

    #[test]
    fn rwsem() -> Result {
        rwsem::example()
    }

    #[test]
    fn shrinker() -> Result {
        shrinker::example()
    }

    #[test]
    fn skcipher() -> Result {
        skcipher::example()
    }

    #[test]
    fn slab() -> Result {
        slab::example()
    }

    #[test]
    fn srcu_grace_period() -> Result {
        srcu_grace_period::example()
    }

    #[test]
    fn srcu_down_read() -> Result {
        srcu_down_read::example()
    }

    #[test]
    fn srcu() -> Result {
        srcu::example()
    }
}

/// A separate suite, because KUnit counts an omitted test as skipped.
#[cfg(CONFIG_IOMMU_IOVA)]
#[kunit_tests(kscale_examples_iova)]
mod iova_tests {
    use super::*;

    #[test]
    fn flush_queue() -> Result {
        flush_queue::example()
    }

    #[test]
    fn iova() -> Result {
        iova::example()
    }

    #[test]
    fn iova_magazine() -> Result {
        iova_magazine::example()
    }
}
