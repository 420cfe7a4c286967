// SPDX-License-Identifier: GPL-2.0

//! Tests of tasks that each allocate the whole reserve.

use kernel::prelude::*;

#[kunit_tests(kscale_mempool_writers)]
mod tests {
    use super::*;

    use super::super::{
        test_allocator::{
            counting,
            Ledger, //
        },
        Mempool, //
    };

    use kernel::{
        sync::Arc,
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    use crate::testing::task::run_jobs;

    /// The number of pages in the largest bio, and in the reserve of a target.
    const PAGES: usize = 256;

    /// Runs `tasks` tasks that allocate all pages of a pool `rounds` times.
    ///
    /// The allocator has `bulk` pages for each allocation, and fails single allocations. Returns
    /// the number of pages from the reserve.
    fn write(tasks: usize, rounds: usize, bulk: usize) -> Result<u64> {
        let ledger = Ledger::new()?;
        let pool = Arc::pin_init(Mempool::new(PAGES, counting(&ledger)), GFP_KERNEL)?;
        ledger.limit_bulk(bulk);
        ledger.refuse();

        run_jobs(tasks, |_| {
            let pool = pool.clone();
            let mut room = KVec::with_capacity(PAGES, GFP_KERNEL)?;
            Ok(move || {
                for _ in 0..rounds {
                    if let Ok(pages) = pool.alloc_bulk(&mut room.spare_capacity_mut()[..PAGES]) {
                        // Give the other tasks time to run while this task holds the whole reserve.
                        fsleep(Delta::from_micros(1));
                        drop(pages);
                    }
                }
            })
        })?;

        Ok(pool.source().stats().reserve)
    }

    #[test]
    fn two_writers_of_the_whole_reserve_take_turns() -> Result {
        const ROUNDS: usize = 50;

        // The number of pages from the allocator for each allocation.
        for bulk in [0, 1, 100, 255] {
            let expected = 2 * ROUNDS * (PAGES - bulk);
            assert_eq!(write(2, ROUNDS, bulk)?, expected as u64);
        }
        Ok(())
    }

    #[test]
    fn many_writers_of_the_whole_reserve_take_turns() -> Result {
        assert_eq!(write(6, 30, 0)?, (6 * 30 * PAGES) as u64);
        Ok(())
    }
}
