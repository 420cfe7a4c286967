// SPDX-License-Identifier: GPL-2.0

//! The workload of virtual CPUs, equal on every machine.
//!
//! A period has 10 ms. In each period the flush queue timer runs on one CPU, and all CPUs do some
//! I/O in turns. The timer walks the queues of all CPUs, one after the other, while other CPUs do
//! I/O. A CPU that does I/O first frees what is flushed in its own queue, as in C, so it often
//! comes before the timer. The depots are trimmed every 100 ms.

use core::str::SplitAsciiWhitespace;

/// Maximum number of CPUs.
pub(crate) const MAX_CPUS: usize = 256;

/// Number of range sizes: powers of two, from 1 to 32 page frames.
pub(crate) const MAX_SIZES: usize = 6;

/// I/Os of a CPU in one turn.
const TURN: u16 = 4;

/// Periods between two trims of the depots.
const TRIM_PERIODS: u32 = 10;

/// The time that the timer takes to free a range, in nanoseconds.
const FREE_NS: usize = 50;

/// The duration of a period in nanoseconds.
const PERIOD_NS: usize = 10_000_000;

/// When the flush queue timer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// In every period.
    Always,
    /// Once, after the first half of the periods: a burst.
    Once,
    /// Never; full queues are drained.
    Never,
}

/// The parameters of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) cpus: usize,
    /// Number of range sizes, all with equal probability.
    pub(crate) sizes: usize,
    /// Minimum and maximum number of I/Os of a CPU in a period.
    pub(crate) ops: (u16, u16),
    pub(crate) periods: u32,
    pub(crate) timer: Timer,
    /// Hundredths of I/Os that other CPUs do while the timer walks one queue; `None` for the number
    /// that follows from `ops` and [`FREE_NS`].
    pub(crate) walk: Option<usize>,
    /// Distance from the CPU that allocates a range to the CPU that frees it; 0 for the same CPU.
    pub(crate) shift: usize,
    /// Number of periods with I/O before each pause, and length of a pause in periods; 0 for no
    /// pause.
    pub(crate) busy: u32,
    pub(crate) pause: u32,
}

/// The machine that runs a workload.
pub(crate) trait Machine {
    type Error;

    /// Allocates a range of 2^`order` page frames on one CPU and queues it on another CPU to be
    /// freed.
    fn io(&mut self, cpu: usize, order: usize, freed_on: usize) -> Result<(), Self::Error>;

    /// Runs the flush queue timer on a CPU: flushes the IOTLB. The walk of the queues follows.
    fn timer(&mut self, cpu: usize);

    /// Frees the flushed ranges of a queue on the CPU of the timer.
    fn walk(&mut self, cpu: usize, queue: usize) -> Result<(), Self::Error>;

    /// Trims the depots.
    fn trim(&mut self);

    /// Records the state after the I/O or the timer of a period.
    fn observe(&mut self, period: u32);
}

/// A random number generator (Marsaglia's xorshift) with a fixed seed.
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
    /// The load of the patch: 64 CPUs, each with 60 to 90 I/Os of one size in 10 ms, and a timer.
    pub(crate) const MAIL: Self = Self {
        cpus: 64,
        sizes: 1,
        ops: (60, 90),
        periods: 160,
        timer: Timer::Always,
        walk: None,
        shift: 0,
        busy: 0,
        pause: 0,
    };

    /// Parses `<name>=<value> ...`. The default values are those of [`MAIL`](Self::MAIL).
    ///
    /// Returns [`None`] for an unknown name or a value out of range.
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
                "walk" => load.walk = Some(value.parse().ok()?),
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
            && load.walk.is_none_or(|walk| walk <= 100_000)
            && load.shift < MAX_CPUS
            && load.busy <= 10_000
            && load.pause <= 10_000;
        is_sound.then_some(load)
    }

    /// Runs the workload on `machine`. Stops at the first error.
    pub(crate) fn run<M: Machine>(&self, machine: &mut M) -> Result<(), M::Error> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);

        for period in 0..self.periods {
            let mut left = Left([0; MAX_CPUS]);
            if !self.pauses(period) {
                left = self.ios(&mut random);
            }
            if self.timer_runs(period) {
                // CAST: To 64 bits.
                self.run_timer(machine, &mut random, &mut left, self.wrap(period as usize))?;
                machine.observe(period);
            }
            self.run_rest(machine, &mut random, &mut left)?;
            machine.observe(period);
            if period % TRIM_PERIODS == TRIM_PERIODS - 1 {
                machine.trim();
            }
        }
        Ok(())
    }

    /// Returns the CPU for a running number.
    fn wrap(&self, number: usize) -> usize {
        number.checked_rem(self.cpus).unwrap_or(0)
    }

    /// Returns whether a period has no I/O.
    fn pauses(&self, period: u32) -> bool {
        // OVERFLOW: `parse()` bounds both.
        period
            .checked_rem(self.busy + self.pause)
            .is_some_and(|period| period >= self.busy)
    }

    /// Returns the first period of the second half, the measured one.
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

    /// Returns the number of I/Os of each CPU in a period.
    fn ios(&self, random: &mut Random) -> Left {
        let (least, most) = self.ops;
        let mut left = Left([0; MAX_CPUS]);
        for left in left.0.iter_mut().take(self.cpus) {
            // CAST: At most `most`.
            *left = least + random.below(u64::from(most - least) + 1) as u16;
        }
        left
    }

    /// Returns the hundredths of I/Os that other CPUs do while the timer walks one queue.
    fn walk_centi(&self) -> usize {
        self.walk.unwrap_or_else(|| {
            // A queue has the ranges of one period.
            let ranges = usize::from(self.ops.0 + self.ops.1) / 2;
            // OVERFLOW: `parse()` bounds all of them.
            100 * self.cpus * ranges * ranges * FREE_NS / PERIOD_NS
        })
    }

    fn io<M: Machine>(
        &self,
        machine: &mut M,
        random: &mut Random,
        cpu: usize,
    ) -> Result<(), M::Error> {
        // CAST: Less than 6.
        let order = random.below(self.sizes as u64) as usize;
        machine.io(cpu, order, self.wrap(cpu + self.shift))
    }

    /// Runs the timer, and some I/Os of other CPUs between two queues.
    fn run_timer<M: Machine>(
        &self,
        machine: &mut M,
        random: &mut Random,
        left: &mut Left,
        timer: usize,
    ) -> Result<(), M::Error> {
        let mut due = 0;

        machine.timer(timer);
        for queue in 0..self.cpus {
            machine.walk(timer, queue)?;
            due += self.walk_centi();
            while due >= 100 {
                due -= 100;
                // CAST: Less than `cpus`.
                let first = random.below(self.cpus as u64) as usize;
                if let Some(cpu) = left.take_one(first, self.cpus, timer) {
                    self.io(machine, random, cpu)?;
                }
            }
        }
        Ok(())
    }

    /// Does the I/Os that are left in a period.
    fn run_rest<M: Machine>(
        &self,
        machine: &mut M,
        random: &mut Random,
        left: &mut Left,
    ) -> Result<(), M::Error> {
        loop {
            let mut is_done = true;
            for cpu in 0..self.cpus {
                for _ in 0..left.take_turn(cpu) {
                    is_done = false;
                    self.io(machine, random, cpu)?;
                }
            }
            if is_done {
                return Ok(());
            }
        }
    }
}

/// The number of I/Os that each CPU has left in a period.
struct Left([u16; MAX_CPUS]);

impl Left {
    /// Takes a turn of I/Os of a CPU. Returns their number.
    fn take_turn(&mut self, cpu: usize) -> u16 {
        self.0.get_mut(cpu).map_or(0, |left| {
            let count = TURN.min(*left);
            *left -= count;
            count
        })
    }

    /// Takes an I/O of the first CPU that has one, from `first` on, except `busy`.
    fn take_one(&mut self, first: usize, cpus: usize, busy: usize) -> Option<usize> {
        let cpu = (first..cpus)
            .chain(0..first)
            .find(|cpu| *cpu != busy && self.0.get(*cpu).is_some_and(|left| *left > 0))?;
        *self.0.get_mut(cpu)? -= 1;
        Some(cpu)
    }
}
