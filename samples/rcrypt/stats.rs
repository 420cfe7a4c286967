// SPDX-License-Identifier: GPL-2.0

//! Statistics of all `rcrypt` devices since the module was loaded, in debugfs.
//!
//! ```text
//! # cat /sys/kernel/debug/rcrypt/stats
//! cpu 0 reads 12 writes 34
//! cpu 1 reads 10 writes 31
//! pages bulk 16 single 0 reserve 0 cached 0 compound 1024
//! reads decrypted at once 0 in softirq 0
//! writes encrypted at once 0 sent in order 0
//! requests refused at the limit 0
//! ```

#[cfg(kscale_kunit)]
use kernel::prelude::*;
use kernel::{
    cpu::CpuId,
    fmt,
    page::PAGE_SIZE,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// CPU numbers wrap modulo `N_SLOTS`.
const N_SLOTS: usize = 256;

/// Where a bio is processed, other than in the encryption workers.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// The completion of a read decrypted it.
    DecryptedAtOnce,
    /// A softirq decrypted a read that completed in a hard interrupt.
    DecryptedInSoftirq,
    /// The submitter of a write encrypted it.
    EncryptedAtOnce,
    /// A worker that sorts by sector submitted a write.
    SentInOrder,
}

/// The number of variants of [`Place`].
const N_PLACES: usize = 4;

/// The counters of one CPU, in their own cache lines.
#[repr(align(64))]
struct Slot {
    reads: Atomic<u64>,
    writes: Atomic<u64>,
    /// Bounce pages of writes.
    pages: Atomic<u64>,
    /// Bounce pages that the page allocator returned in bulk.
    bulk_pages: Atomic<u64>,
    /// Bounce pages that the page allocator returned one by one.
    single_pages: Atomic<u64>,
    /// Bounce pages from a stash.
    cached_pages: Atomic<u64>,
    /// Bounce pages in blocks of the page allocator.
    compound_pages: Atomic<u64>,
    /// Bios by [`Place`].
    places: [Atomic<u64>; N_PLACES],
    /// Page requests that the limit of the target refused.
    refusals: Atomic<u64>,
}

static SLOTS: [Slot; N_SLOTS] = [const {
    Slot {
        reads: Atomic::new(0),
        writes: Atomic::new(0),
        pages: Atomic::new(0),
        bulk_pages: Atomic::new(0),
        single_pages: Atomic::new(0),
        cached_pages: Atomic::new(0),
        compound_pages: Atomic::new(0),
        places: [const { Atomic::new(0) }; N_PLACES],
        refusals: Atomic::new(0),
    }
}; N_SLOTS];

/// Adds `count` to a counter of the current CPU.
#[inline]
fn add(count: u64, counter: fn(&Slot) -> &Atomic<u64>) {
    // CAST: From 32 to 64 bits.
    let cpu = CpuId::current().as_u32() as usize;

    if let Some(slot) = SLOTS.get(cpu % N_SLOTS) {
        counter(slot).add(count, Relaxed);
    }
}

/// Counts a decrypted bio.
#[inline]
pub(crate) fn count_read() {
    add(1, |slot| &slot.reads);
}

/// Counts a bio by [`Place`].
#[inline]
pub(crate) fn count(place: Place) {
    // PANIC: There are as many counters as places.
    add(
        1,
        match place {
            Place::DecryptedAtOnce => |slot| &slot.places[0],
            Place::DecryptedInSoftirq => |slot| &slot.places[1],
            Place::EncryptedAtOnce => |slot| &slot.places[2],
            Place::SentInOrder => |slot| &slot.places[3],
        },
    );
}

/// Counts a write of `len_bytes` with its bounce pages.
#[inline]
pub(crate) fn count_write(len_bytes: u32) {
    add(1, |slot| &slot.writes);
    // CAST: From 32 to 64 bits; the page size fits into 32 bits.
    add(len_bytes.div_ceil(PAGE_SIZE as u32).into(), |slot| {
        &slot.pages
    });
}

/// Counts pages that the page allocator returned in bulk.
#[inline]
pub(crate) fn count_bulk_pages(count: usize) {
    // CAST: From 64 to 64 bits.
    add(count as u64, |slot| &slot.bulk_pages);
}

/// Counts a page that the page allocator returned alone.
#[inline]
pub(crate) fn count_single_page() {
    add(1, |slot| &slot.single_pages);
}

/// Counts pages from a stash.
#[inline]
pub(crate) fn count_cached_pages(count: usize) {
    // CAST: From 64 to 64 bits.
    add(count as u64, |slot| &slot.cached_pages);
}

/// Counts pages in a block of the page allocator.
#[inline]
pub(crate) fn count_compound_pages(count: usize) {
    // CAST: From 64 to 64 bits.
    add(count as u64, |slot| &slot.compound_pages);
}

/// Counts a page request that the limit of the target refused.
#[inline]
pub(crate) fn count_refusal() {
    add(1, |slot| &slot.refusals);
}

/// Writes the counters. They are read one by one, so a concurrent bio may be counted in part.
pub(crate) fn write(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut pages, mut bulk, mut single) = (0_u64, 0_u64, 0_u64);
    let (mut cached, mut compound, mut refusals) = (0_u64, 0_u64, 0_u64);
    let mut places = [0_u64; N_PLACES];

    for (cpu, slot) in SLOTS.iter().enumerate() {
        let (reads, writes) = (slot.reads.load(Relaxed), slot.writes.load(Relaxed));

        pages = pages.wrapping_add(slot.pages.load(Relaxed));
        bulk = bulk.wrapping_add(slot.bulk_pages.load(Relaxed));
        single = single.wrapping_add(slot.single_pages.load(Relaxed));
        cached = cached.wrapping_add(slot.cached_pages.load(Relaxed));
        compound = compound.wrapping_add(slot.compound_pages.load(Relaxed));
        for (sum, place) in places.iter_mut().zip(&slot.places) {
            *sum = sum.wrapping_add(place.load(Relaxed));
        }
        refusals = refusals.wrapping_add(slot.refusals.load(Relaxed));
        if reads != 0 || writes != 0 {
            writeln!(f, "cpu {cpu} reads {reads} writes {writes}")?;
        }
    }
    let others = bulk
        .wrapping_add(single)
        .wrapping_add(cached)
        .wrapping_add(compound);
    let reserve = pages.saturating_sub(others);
    writeln!(
        f,
        "pages bulk {bulk} single {single} reserve {reserve} cached {cached} compound {compound}"
    )?;
    let [at_once, in_softirq, encrypted_at_once, in_order] = places;
    writeln!(
        f,
        "reads decrypted at once {at_once} in softirq {in_softirq}"
    )?;
    writeln!(
        f,
        "writes encrypted at once {encrypted_at_once} sent in order {in_order}"
    )?;
    writeln!(f, "requests refused at the limit {refusals}")
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_stats)]
mod tests {
    use super::*;

    use kernel::str::CString;

    struct Shown;

    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write(f)
        }
    }

    /// The values in the statistics file.
    #[derive(Debug, Default, PartialEq)]
    struct Counts {
        reads: u64,
        writes: u64,
        /// Bulk, single, reserve, cached, compound.
        pages: [u64; 5],
        decrypted: [u64; 2],
        encrypted: [u64; 2],
        refused: u64,
    }

    fn number(word: &str) -> Result<u64> {
        word.parse().map_err(|_| EINVAL)
    }

    fn counts() -> Result<Counts> {
        let text = CString::try_from_fmt(fmt!("{}", Shown))?;
        let mut counts = Counts::default();

        for line in text.to_str().map_err(|_| EINVAL)?.lines() {
            let mut words = KVec::new();
            for word in line.split(' ') {
                words.push(word, GFP_KERNEL)?;
            }
            match words[..] {
                ["cpu", _, "reads", reads, "writes", writes] => {
                    counts.reads += number(reads)?;
                    counts.writes += number(writes)?;
                }
                ["pages", "bulk", a, "single", b, "reserve", c, "cached", d, "compound", e] => {
                    let [a, b, c, d, e] = [a, b, c, d, e].map(number);
                    counts.pages = [a?, b?, c?, d?, e?];
                }
                ["reads", "decrypted", "at", "once", a, "in", "softirq", b] => {
                    counts.decrypted = [number(a)?, number(b)?];
                }
                ["writes", "encrypted", "at", "once", a, "sent", "in", "order", b] => {
                    counts.encrypted = [number(a)?, number(b)?];
                }
                ["requests", "refused", "at", "the", "limit", a] => counts.refused = number(a)?,
                _ => return Err(EINVAL),
            }
        }
        Ok(counts)
    }

    /// Tests that run concurrently do not use these devices.
    #[test]
    fn whatever_is_counted_is_shown_where_it_belongs() -> Result {
        const PAGE: u32 = PAGE_SIZE as u32;
        // Other tests count pages without a write.
        for _ in 0..4 {
            count_write(u32::MAX);
        }
        let mut expected = counts()?;
        assert!(expected.pages[2] > 0);

        for (count, bulk, single, cached, compound) in [
            (5, 0, 0, 0, 0),
            (4, 4, 0, 0, 0),
            (3, 0, 3, 0, 0),
            (2, 0, 0, 2, 0),
            (9, 1, 2, 0, 4),
        ] {
            count_write(count * PAGE);
            count_bulk_pages(bulk);
            for _ in 0..single {
                count_single_page();
            }
            count_cached_pages(cached);
            count_compound_pages(compound);
            expected.writes += 1;
            let others = [bulk as u64, single, cached as u64, compound as u64];
            expected.pages[0] += others[0];
            expected.pages[1] += others[1];
            expected.pages[2] += u64::from(count) - others.iter().sum::<u64>();
            expected.pages[3] += others[2];
            expected.pages[4] += others[3];
            assert_eq!(counts()?, expected);
        }
        for (len_bytes, pages) in [(0, 0), (1, 1), (PAGE, 1), (PAGE + 1, 2)] {
            count_write(len_bytes);
            expected.writes += 1;
            expected.pages[2] += pages;
            assert_eq!(counts()?, expected);
        }
        count_read();
        expected.reads += 1;
        count_refusal();
        expected.refused += 1;
        assert_eq!(counts()?, expected);
        for (place, times) in [
            (Place::DecryptedAtOnce, 1),
            (Place::DecryptedInSoftirq, 2),
            (Place::EncryptedAtOnce, 3),
            (Place::SentInOrder, 4),
        ] {
            for _ in 0..times {
                count(place);
            }
        }
        let ([a, b], [c, d]) = (expected.decrypted, expected.encrypted);
        (expected.decrypted, expected.encrypted) = ([a + 1, b + 2], [c + 3, d + 4]);
        assert_eq!(counts()?, expected);
        Ok(())
    }
}
