// SPDX-License-Identifier: GPL-2.0

//! Statistics of the cache.

use kernel::prelude::*;

use kscale::percpu::PerCpuInts;

/// The events that are counted.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    Hit,
    Miss,
    Evicted,
    Rotated,
}

/// Counts of the events on each CPU.
pub(crate) struct Events(PerCpuInts<u64, 4>);

impl Events {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(PerCpuInts::new()?))
    }

    pub(crate) fn count(&self, event: Event) {
        if let Some(count) = self.0.get(event as usize) {
            count.inc();
        }
    }

    /// Returns the count of an event. It is exact if the event does not occur concurrently.
    pub(crate) fn of(&self, event: Event) -> u64 {
        self.0.get(event as usize).map_or(0, |count| count.sum())
    }
}

/// Number of recorded keys.
const KEYS: usize = 64;

/// The keys of the last evicted objects.
pub(crate) struct Evicted {
    keys: [u64; KEYS],
    /// Total number of evicted objects.
    total: usize,
}

impl Evicted {
    pub(crate) const fn new() -> Self {
        Self {
            keys: [0; KEYS],
            total: 0,
        }
    }

    pub(crate) fn push(&mut self, key: u64) {
        if let Some(slot) = self.keys.get_mut(self.total % KEYS) {
            *slot = key;
        }
        self.total = self.total.wrapping_add(1);
    }

    /// Returns the keys in the order of eviction.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let from = self.total.saturating_sub(KEYS);
        (from..self.total).filter_map(|index| self.keys.get(index % KEYS).copied())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(lru_cache_stats)]
mod tests {
    use super::*;

    #[test]
    fn the_last_keys_are_remembered() {
        let mut evicted = Evicted::new();
        assert_eq!(evicted.iter().count(), 0);

        for key in 0..3 {
            evicted.push(key);
        }
        assert!(evicted.iter().eq(0..3));

        for key in 3..KEYS as u64 + 2 {
            evicted.push(key);
        }
        assert!(evicted.iter().eq(2..KEYS as u64 + 2));
    }

    #[test]
    fn events_are_counted_apart() -> Result {
        let events = Events::new()?;

        events.count(Event::Miss);
        events.count(Event::Rotated);
        events.count(Event::Rotated);

        assert_eq!(events.of(Event::Hit), 0);
        assert_eq!(events.of(Event::Miss), 1);
        assert_eq!(events.of(Event::Evicted), 0);
        assert_eq!(events.of(Event::Rotated), 2);
        Ok(())
    }
}
