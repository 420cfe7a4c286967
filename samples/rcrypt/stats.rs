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
    fmt,
    page::PAGE_SIZE, //
};

use kscale::percpu::PerCpuInts;

/// Counters of each CPU, by the constants of this file.
pub(crate) type Stats = PerCpuInts<u64, 12>;

/// Decrypted bios.
pub(crate) const READS: usize = 0;
/// Encrypted bios.
pub(crate) const WRITES: usize = 1;
/// Bounce pages of writes.
pub(crate) const PAGES: usize = 2;
/// Bounce pages that the page allocator returned in bulk.
pub(crate) const BULK_PAGES: usize = 3;
/// Bounce pages that the page allocator returned one by one.
pub(crate) const SINGLE_PAGES: usize = 4;
/// Bounce pages from a stash.
pub(crate) const CACHED_PAGES: usize = 5;
/// Bounce pages in blocks of the page allocator.
pub(crate) const COMPOUND_PAGES: usize = 6;
/// Reads that their completion decrypted.
pub(crate) const INLINE_READS: usize = 7;
/// Reads that completed in a hard interrupt, and that a softirq decrypted.
pub(crate) const SOFTIRQ_READS: usize = 8;
/// Writes that their submitter encrypted.
pub(crate) const INLINE_WRITES: usize = 9;
/// Writes that a worker submitted, sorted by sector.
pub(crate) const SORTED_WRITES: usize = 10;
/// Page requests that the limit of the target refused.
pub(crate) const REFUSALS: usize = 11;

/// Returns the number of bounce pages of a write.
#[inline]
pub(crate) fn pages(len_bytes: u32) -> u64 {
    // CAST: The page size fits into 32 bits.
    len_bytes.div_ceil(PAGE_SIZE as u32).into()
}

/// Writes the counters. They are read one by one, so a concurrent bio may be counted in part.
pub(crate) fn write(stats: &Stats, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (reads, writes) = (stats.at::<READS>(), stats.at::<WRITES>());
    for ((cpu, reads), (_, writes)) in reads.iter().zip(writes.iter()) {
        if reads != 0 || writes != 0 {
            writeln!(f, "cpu {} reads {reads} writes {writes}", cpu.as_u32())?;
        }
    }
    let bulk = stats.at::<BULK_PAGES>().sum();
    let single = stats.at::<SINGLE_PAGES>().sum();
    let cached = stats.at::<CACHED_PAGES>().sum();
    let compound = stats.at::<COMPOUND_PAGES>().sum();
    let others = [bulk, single, cached, compound];
    let reserve = others
        .into_iter()
        .fold(stats.at::<PAGES>().sum(), u64::saturating_sub);
    writeln!(
        f,
        "pages bulk {bulk} single {single} reserve {reserve} cached {cached} compound {compound}"
    )?;
    writeln!(
        f,
        "reads decrypted at once {} in softirq {}",
        stats.at::<INLINE_READS>().sum(),
        stats.at::<SOFTIRQ_READS>().sum()
    )?;
    writeln!(
        f,
        "writes encrypted at once {} sent in order {}",
        stats.at::<INLINE_WRITES>().sum(),
        stats.at::<SORTED_WRITES>().sum()
    )?;
    writeln!(
        f,
        "requests refused at the limit {}",
        stats.at::<REFUSALS>().sum()
    )
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_stats)]
mod tests {
    use super::*;

    use kernel::str::CString;

    struct Shown<'a>(&'a Stats);

    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write(self.0, f)
        }
    }

    #[test]
    fn each_counter_is_shown_in_its_place() -> Result {
        let stats = Stats::new()?;

        for (index, counter) in stats.iter().enumerate() {
            counter.add(1 << index);
        }
        stats.at::<PAGES>().add(1000);
        let text = CString::try_from_fmt(fmt!("{}", Shown(&stats)))?;
        let text = text.to_str().map_err(|_| EINVAL)?;
        assert!(text.ends_with(
            "pages bulk 8 single 16 reserve 884 cached 32 compound 64\n\
             reads decrypted at once 128 in softirq 256\n\
             writes encrypted at once 512 sent in order 1024\n\
             requests refused at the limit 2048\n"
        ));

        // The task may migrate meanwhile, so there may be two such lines.
        let mut sums = [0, 0];
        for line in text.lines().filter(|line| line.starts_with("cpu ")) {
            for (sum, word) in sums.iter_mut().zip(line.split(' ').skip(3).step_by(2)) {
                *sum += word.parse::<u64>().map_err(|_| EINVAL)?;
            }
        }
        assert_eq!(sums, [1 << READS, 1 << WRITES]);
        Ok(())
    }

    #[test]
    fn only_cpus_with_bios_are_shown() -> Result {
        // Reads, writes, whether there is a line of a CPU.
        for (reads, writes, is_shown) in [(0, 0, false), (1, 0, true), (0, 1, true)] {
            let stats = Stats::new()?;
            stats.at::<READS>().add(reads);
            stats.at::<WRITES>().add(writes);
            let text = CString::try_from_fmt(fmt!("{}", Shown(&stats)))?;
            let text = text.to_str().map_err(|_| EINVAL)?;

            let line = text.lines().find(|line| line.starts_with("cpu "));
            assert_eq!(line.is_some(), is_shown);
            let end = CString::try_from_fmt(fmt!(" reads {reads} writes {writes}"))?;
            let end = end.to_str().map_err(|_| EINVAL)?;
            assert!(line.is_none_or(|line| line.ends_with(end)));
        }
        Ok(())
    }

    #[test]
    fn a_write_has_whole_pages() {
        const PAGE: u32 = PAGE_SIZE as u32;

        for (len_bytes, count) in [(0, 0), (1, 1), (PAGE, 1), (PAGE + 1, 2)] {
            assert_eq!(pages(len_bytes), count);
        }
    }
}
