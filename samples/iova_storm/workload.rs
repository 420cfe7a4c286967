// SPDX-License-Identifier: GPL-2.0

//! What virtual CPUs do, the same on every machine.
//!
//! Time goes in periods of 10 ms. In each of them every CPU does some I/O, the CPUs taking turns; then
//! the timer of the flush queue runs on one of them. Every 100 ms the depots are trimmed.

use core::str::SplitAsciiWhitespace;

/// Most CPUs.
pub(crate) const MAX_CPUS: usize = 256;

/// Sizes of ranges: powers of two, from 1 to 32 page frames.
pub(crate) const MAX_SIZES: usize = 6;

/// I/Os that a CPU does in its turn.
const TURN: u16 = 4;

/// Periods between two times that the depots are trimmed.
const TRIM_PERIODS: u32 = 10;

/// When the timer of the flush queue runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// In every period.
    Always,
    /// Once, when the first half of the periods is over: a burst.
    Once,
    /// Never, as queues are drained when they are full.
    Never,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) cpus: usize,
    /// How many sizes of ranges there are, all as likely.
    pub(crate) sizes: usize,
    /// The least and the most I/Os of a CPU in a period.
    pub(crate) ops: (u16, u16),
    pub(crate) periods: u32,
    pub(crate) timer: Timer,
    /// How many CPUs further on ranges are freed: 0, on the CPU that allocated them.
    pub(crate) shift: usize,
    /// How many periods with I/O each pause follows, and how many periods it takes; 0: none.
    pub(crate) busy: u32,
    pub(crate) pause: u32,
}

/// What does it.
pub(crate) trait Machine {
    type Error;

    /// Allocates a range of 2^`order` page frames on one CPU, and queues it on another to be freed.
    fn io(&mut self, cpu: usize, order: usize, freed_on: usize) -> Result<(), Self::Error>;

    /// Runs the timer of the flush queue on a CPU.
    fn timer(&mut self, cpu: usize) -> Result<(), Self::Error>;

    /// Trims the depots.
    fn trim(&mut self);

    /// Hears that I/O, or the timer, is done for a period.
    fn observe(&mut self, period: u32);
}

/// A generator of numbers (Marsaglia's xorshift), the same for every run.
struct Random(u64);

impl Random {
    /// Returns a number less than `bound`, or 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.checked_rem(bound).unwrap_or(0)
    }
}

impl Workload {
    /// That of the mail: 64 CPUs with 60 to 90 I/Os in 10 ms each, of one size, and a timer.
    pub(crate) const MAIL: Self = Self {
        cpus: 64,
        sizes: 1,
        ops: (60, 90),
        periods: 160,
        timer: Timer::Always,
        shift: 0,
        busy: 0,
        pause: 0,
    };

    /// Parses `<name>=<value> ...`; what is not named is as in [`MAIL`](Self::MAIL).
    ///
    /// Returns nothing for what is unknown or out of range.
    pub(crate) fn parse(words: SplitAsciiWhitespace<'_>) -> Option<Self> {
        let mut load = Self::MAIL;
        for word in words {
            let (name, value) = word.split_once('=')?;
            match name {
                "cpus" => load.cpus = value.parse().ok()?,
                "sizes" => load.sizes = value.parse().ok()?,
                "ops" => {
                    let (least, most) = value.split_once('-').unwrap_or((value, value));
                    load.ops = (least.parse().ok()?, most.parse().ok()?);
                }
                "periods" => load.periods = value.parse().ok()?,
                "timer" => {
                    load.timer = match value {
                        "always" => Timer::Always,
                        "once" => Timer::Once,
                        "never" => Timer::Never,
                        _ => return None,
                    }
                }
                "shift" => load.shift = value.parse().ok()?,
                "busy" => load.busy = value.parse().ok()?,
                "pause" => load.pause = value.parse().ok()?,
                _ => return None,
            }
        }
        let is_sound = (1..=MAX_CPUS).contains(&load.cpus)
            && (1..=MAX_SIZES).contains(&load.sizes)
            && load.ops.0 <= load.ops.1
            && load.ops.1 <= 1000
            && (2..=10_000).contains(&load.periods)
            && load.shift < MAX_CPUS
            && load.busy <= 10_000
            && load.pause <= 10_000;
        is_sound.then_some(load)
    }

    /// Does all of it on `machine`, or what there is before an error.
    pub(crate) fn run<M: Machine>(&self, machine: &mut M) -> Result<(), M::Error> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);

        for period in 0..self.periods {
            if !self.pauses(period) {
                self.run_period(machine, &mut random)?;
            }
            machine.observe(period);
            if self.timer_runs(period) {
                // CAST: To 64 bits.
                machine.timer(self.wrap(period as usize))?;
                machine.observe(period);
            }
            if period % TRIM_PERIODS == TRIM_PERIODS - 1 {
                machine.trim();
            }
        }
        Ok(())
    }

    /// Returns the number of a CPU, as they take turns.
    fn wrap(&self, number: usize) -> usize {
        number.checked_rem(self.cpus).unwrap_or(0)
    }

    /// Tells whether there is no I/O in a period.
    fn pauses(&self, period: u32) -> bool {
        // OVERFLOW: `parse()` bounds both.
        period
            .checked_rem(self.busy + self.pause)
            .is_some_and(|period| period >= self.busy)
    }

    /// Returns the number of the period that is not measured any more, but the first after it is.
    pub(crate) fn half(&self) -> u32 {
        self.periods / 2
    }

    fn timer_runs(&self, period: u32) -> bool {
        match self.timer {
            Timer::Always => true,
            Timer::Once => period == self.half(),
            Timer::Never => false,
        }
    }

    fn run_period<M: Machine>(&self, machine: &mut M, random: &mut Random) -> Result<(), M::Error> {
        let (least, most) = self.ops;
        let mut left = [0; MAX_CPUS];
        for left in left.iter_mut().take(self.cpus) {
            // CAST: At most `most`.
            *left = least + random.below(u64::from(most - least) + 1) as u16;
        }
        loop {
            let mut is_done = true;
            for (cpu, left) in left.iter_mut().enumerate().take(self.cpus) {
                for _ in 0..TURN.min(*left) {
                    // CAST: Less than 6.
                    let order = random.below(self.sizes as u64) as usize;
                    machine.io(cpu, order, self.wrap(cpu + self.shift))?;
                }
                *left = left.saturating_sub(TURN);
                is_done &= *left == 0;
            }
            if is_done {
                return Ok(());
            }
        }
    }
}
