// SPDX-License-Identifier: GPL-2.0

//! A histogram of latencies.

use kernel::prelude::*;

/// Binary logarithm of the number of buckets per power of two: the resolution is 1/16.
const FINE_BITS: u32 = 4;

/// Number of buckets, for 63 bits.
const BUCKETS: usize = 64 << FINE_BITS;

/// Counts of latencies by bucket.
#[derive(Default)]
pub(crate) struct Latencies {
    /// Empty, or of length [`BUCKETS`].
    buckets: KVec<u64>,
    count: u64,
    max_ns: i64,
}

impl Latencies {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            buckets: KVec::from_elem(0, BUCKETS, GFP_KERNEL)?,
            count: 0,
            max_ns: 0,
        })
    }

    /// Returns the bucket of a latency.
    fn bucket(ns: i64) -> usize {
        let ns = ns.max(0).unsigned_abs();
        let coarse = ns.checked_ilog2().unwrap_or(0).saturating_sub(FINE_BITS);

        // CAST: Less than `BUCKETS`: at most 58 << 4, and at most 31.
        (u64::from(coarse << FINE_BITS) + (ns >> coarse)) as usize
    }

    /// Returns the largest latency of a bucket.
    fn largest_ns(bucket: usize) -> i64 {
        let coarse = (bucket >> FINE_BITS).saturating_sub(1);
        let fine = bucket - (coarse << FINE_BITS);

        // CAST: Less than 2^63, the limit of `bucket()`.
        (((fine + 1) << coarse) - 1) as i64
    }

    pub(crate) fn add(&mut self, ns: i64) {
        if let Some(bucket) = self.buckets.get_mut(Self::bucket(ns)) {
            *bucket += 1;
        }
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max_ns(&self) -> i64 {
        self.max_ns
    }

    /// Returns the given percentile of the latencies, rounded up by at most 1/16.
    pub(crate) fn percentile_ns(&self, percent: u64) -> i64 {
        let rank = self.count.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });

        found.map_or(0, |bucket| Self::largest_ns(bucket).min(self.max_ns))
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(srcu_registry_latencies)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_as_fine_as_it_says() {
        // Smallest and largest latency of a bucket.
        const ROWS: [(i64, i64); 8] = [
            (0, 0),
            (15, 15),
            (16, 16),
            (31, 31),
            (32, 33),
            (62, 63),
            (1 << 20, (1 << 20) + (1 << 16) - 1),
            (i64::MAX - (1 << 58) + 1, i64::MAX),
        ];
        for (smallest, largest) in ROWS {
            let bucket = Latencies::bucket(smallest);

            assert!(bucket < BUCKETS);
            assert_eq!(Latencies::bucket(largest), bucket);
            assert_eq!(Latencies::largest_ns(bucket), largest);
            assert!(smallest == 0 || Latencies::bucket(smallest - 1) == bucket - 1);
        }
        assert_eq!(Latencies::bucket(-1), 0);
    }

    #[test]
    fn percentiles_are_of_what_was_added() -> Result {
        let mut latencies = Latencies::new()?;
        assert_eq!(latencies.percentile_ns(50), 0);

        for ns in 1..=10 {
            latencies.add(ns);
        }
        latencies.add(1000);

        assert_eq!(latencies.count(), 11);
        assert_eq!(latencies.percentile_ns(0), 1);
        assert_eq!(latencies.percentile_ns(50), 6);
        assert_eq!(latencies.percentile_ns(90), 10);
        assert_eq!(latencies.percentile_ns(99), 1000);
        assert_eq!(latencies.max_ns(), 1000);
        Ok(())
    }
}
