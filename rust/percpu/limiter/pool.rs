// SPDX-License-Identifier: GPL-2.0

//! The algorithm of the credit limiters, independent of atomics and CPUs.
//!
//! The kernel and the interleaving checker of `tests/host/loom` both run this file. The parent
//! module supplies the `atomic` module.
//!
//! # Where credits are
//!
//! Each credit of the limit is in one of these places:
//!
//! - *free*: counted in the one [`State`] that all CPUs share;
//! - *parked*: in the slot of a CPU, for the next requests of this CPU;
//! - *in transit*: a call moves it between these two places;
//! - *in use*.
//!
//! Each atomic operation moves credits of one place only. So no credit is ever in two places, and
//! the credits in use never exceed the limit. A lower limit removes credits that may still be in
//! use; then `free` is negative. Nothing is admitted while `free` is negative, not even parked
//! credits.
//!
//! A slot is *closed* or *open*. A closed slot holds no credits. The state counts free credits and
//! open slots in one word. A slot is counted before it opens. When it is closed, it stays counted
//! until its credits are free. So a call that sees too few free credits and no open slot knows that
//! all other unused credits are in transit. A call that sees open slots closes all of them, then
//! decides. It does so only once, as other calls may keep opening slots. So it misses credits that
//! are parked in a slot after its visit. But the task that parked them finds them at its next
//! request.
//!
//! A slot is refilled only while many credits are free. An open slot also keeps the credits of a
//! few requests that are returned on its CPU, however few are free. So a CPU that takes and returns
//! credits near the limit uses its slot alone. If a request then needs credits that are parked
//! elsewhere, it closes all slots. Without a refill they stay closed for four requests of each CPU,
//! see [`Pacing`]. A refill requires about as many free credits as there are slots. So a visit of
//! all slots happens once in about as many requests, if the requests have one size.

use super::{
    atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    pacing::Pacing, //
};

/// The largest limit, and the largest number of credits of one call.
///
/// A hundred concurrent calls that lower a limit of this size do not overflow, see [`MIN_FREE`].
pub(super) const MAX_LIMIT: i64 = 1 << 40;

/// The fewest free credits that [`Pool::charge`] leaves, far above the minimum of [`State`].
const MIN_FREE: i64 = -(1 << 46);

/// The least number of requests of one size that a refill of a slot provides for.
const MIN_REFILL_REQUESTS: i64 = 32;

/// The number of requests of one size whose credits a slot keeps if few credits are free.
const KEPT_REQUESTS: i64 = 4;

/// Free credits and open slots in one word.
///
/// The upper 48 bits are the credits, signed. So an addition to the word adds to the credits.
#[derive(Clone, Copy)]
struct State(i64);

impl State {
    const OPEN_BITS: u32 = 16;

    /// Half of the range of the field: calls check the count before they open a slot.
    const MAX_OPEN: i64 = 1 << (Self::OPEN_BITS - 1);

    /// Returns a state, or a difference to add to the word, which may be negative.
    const fn new(free: i64, open: i64) -> Self {
        // OVERFLOW: `free` stays between `MIN_FREE` and `MAX_LIMIT`, plus or minus `MAX_LIMIT` for
        // each concurrent call.
        Self((free << Self::OPEN_BITS) + open)
    }

    const fn free(self) -> i64 {
        self.0 >> Self::OPEN_BITS
    }

    const fn open(self) -> i64 {
        self.0 & ((1 << Self::OPEN_BITS) - 1)
    }
}

/// The slots of the CPUs.
///
/// A closed slot is 0. An open slot is 1 plus the credits parked in it.
pub(super) trait Slots {
    /// Returns the slot of this CPU, or of a CPU that the task ran on a moment ago.
    fn local(&self) -> &Atomic<i64>;

    /// Calls `f` with the slot of every CPU that may ever have run.
    fn for_each(&self, f: impl FnMut(&Atomic<i64>));
}

/// The credits and slots that a call has taken.
#[derive(Default)]
struct Drained {
    credits: i64,
    slots: i64,
}

/// The credits of a limiter.
///
/// # Invariants
///
/// - At any time, the sum of the credits that are free, parked, in transit or in use is `limit`.
///   While [`set_limit()`](Self::set_limit) runs, the sum may be less.
/// - `state` counts three kinds of slots: open slots, slots that a call is about to open, and
///   closed slots whose credits are still in transit.
// In a cache line of its own: requests of other CPUs move it.
#[repr(align(64))]
pub(super) struct Pool<S> {
    state: Atomic<i64>,
    pacing: Pacing,
    limit: Atomic<i64>,
    /// The number of requests of one size that a refill of a slot provides for, see `new()`. A slot
    /// provides for twice as many at most.
    refill_requests: i64,
    /// The share of one CPU is the free credits shifted right by this.
    share_shift: u32,
    slots: S,
}

impl<S: Slots> Pool<S> {
    /// Creates a pool of `limit` credits. All `slots`, of `cpus` CPUs, must be closed.
    pub(super) fn new(limit: i64, slots: S, cpus: usize) -> Self {
        // CAST: Far from 2^63.
        let count = cpus as i64;

        // INVARIANT: All credits are free, and no slot is open.
        Self {
            state: Atomic::new(State::new(limit, 0).0),
            pacing: Pacing::new(count),
            limit: Atomic::new(limit),
            // Grows with the CPUs, as each of them reads the state that a refill changes. C:
            // `compute_batch_value()` in `lib/percpu_counter.c`.
            refill_requests: count.saturating_mul(2).max(MIN_REFILL_REQUESTS),
            // All CPUs together get at most half of the free credits.
            share_shift: cpus.next_power_of_two().trailing_zeros() + 1,
            slots,
        }
    }

    /// Returns the limit.
    pub(super) fn limit(&self) -> i64 {
        self.limit.load(Relaxed)
    }

    /// Takes `count` credits, from 1 to [`MAX_LIMIT`], if enough are left.
    #[inline]
    pub(super) fn acquire(&self, count: i64) -> bool {
        let slot = self.slots.local();
        let parked = slot.load(Relaxed);

        // While the limit is exceeded, parked credits must not be used.
        if parked > count
            && self.state().free() >= 0
            && slot.cmpxchg(parked, parked - count, Acquire).is_ok()
        {
            return true;
        }
        self.acquire_free(count)
    }

    /// As [`acquire`](Self::acquire), from the free credits.
    fn acquire_free(&self, count: i64) -> bool {
        let mut drained = Drained::default();
        let mut may_close = true;

        loop {
            let state = self.state();
            // Only callers that return more than they took have this many.
            let free = (state.free() + drained.credits).min(MAX_LIMIT);
            let open = state.open() - drained.slots;

            if free >= count {
                if self.take(state, free - count, open, count) {
                    return true;
                }
            } else if open != 0 && may_close {
                drained = self.close_all();
                may_close = false;
            } else if drained.slots == 0 || self.replace(state, State::new(free, open)) {
                // Too few, at the time of the load or of the exchange.
                return false;
            }
        }
    }

    /// Stores `left` free credits and `open` counted slots if the state is still `state`. Parks
    /// some of `left` for further requests of `count` credits.
    fn take(&self, state: State, left: i64, open: i64, count: i64) -> bool {
        let slot = self.slots.local();
        let seen = slot.load(Relaxed);
        let opens = i64::from(seen == 0);
        let spare = self.share(left).min(count * self.refill_requests);
        let spare = if spare < count { 0 } else { spare };
        let parks = match opens {
            0 => spare > 0,
            _ => self.may_open(open, spare > 0),
        };

        if !parks {
            return self.replace(state, State::new(left, open));
        }
        let taken = self.replace(state, State::new(left - spare, open + opens));
        if taken {
            self.park(slot, seen, spare);
        }
        taken
    }

    /// Returns whether a slot may open, if `open` slots are counted. `is_far` is whether many
    /// credits are free.
    fn may_open(&self, open: i64, is_far: bool) -> bool {
        (is_far || self.pacing.may_open()) && open < State::MAX_OPEN
    }

    /// Returns `count` credits that were taken.
    #[inline]
    pub(super) fn release(&self, count: i64) {
        let slot = self.slots.local();
        let seen = slot.load(Relaxed);
        let room = self.room(self.state(), count);

        // OVERFLOW: `room` is less than 2^47.
        if seen > 0 && seen - 1 <= room - count {
            if slot.cmpxchg(seen, seen + count, Release).is_ok() {
                return;
            }
        }
        self.release_free(count);
    }

    /// As [`release`](Self::release), if a single exchange cannot park the credits.
    fn release_free(&self, count: i64) {
        let state = self.state();
        let slot = self.slots.local();
        let seen = slot.load(Relaxed);
        let room = self.room(state, count);

        if seen == 0 {
            let opened = State(state.0 + 1);

            let is_far = count <= self.share(state.free());

            if count <= room && self.may_open(state.open(), is_far) && self.replace(state, opened) {
                return self.park(slot, seen, count);
            }
        } else if seen - 1 > room - count {
            // Closes the slot, or keeps half of the room so that the next release does not spill.
            let left = if room == 0 { 0 } else { 1 + room / 2 };
            let spilled = seen - left.max(1);

            if (spilled > 0 || left == 0) && slot.cmpxchg(seen, left, Acquire).is_ok() {
                return self.put(count + spilled, i64::from(left == 0));
            }
        }
        self.put(count, 0);
    }

    /// Takes `count` credits, from 1 to [`MAX_LIMIT`], even if too few are left.
    ///
    /// Fails if the limit would be exceeded by more than 2^46.
    pub(super) fn charge(&self, count: i64) -> bool {
        loop {
            let state = self.state();
            let free = state.free() - count;

            if free < MIN_FREE {
                return false;
            }
            if self.replace(state, State::new(free, state.open())) {
                return true;
            }
        }
    }

    /// Returns `count` credits, from 1 to [`MAX_LIMIT`], unless `count` credits cannot be in use.
    ///
    /// For callers whose count may be wrong: the check keeps the state in range, and nothing more.
    pub(super) fn uncharge(&self, count: i64) {
        if count <= MAX_LIMIT - self.state().free() {
            self.release(count);
        }
    }

    /// Changes the limit, to a value from 0 to [`MAX_LIMIT`].
    ///
    /// When the limit falls, the sum of the credits falls before `limit` changes. When it rises,
    /// the sum rises after `limit` has changed. So the sum never exceeds the limits of concurrent
    /// calls.
    ///
    /// Fails if more than fifty concurrent calls lower the limit by nearly [`MAX_LIMIT`] each.
    pub(super) fn set_limit(&self, limit: i64) -> bool {
        let mut old = self.limit.load(Relaxed);

        loop {
            let fall = (old - limit).max(0);

            if fall > 0 && !self.charge(fall) {
                return false;
            }
            // `Relaxed`: the operation that moves the credits orders this store. Before it
            // `charge()` is `Full`; after it `put()` is `Release`.
            match self.limit.cmpxchg(old, limit, Relaxed) {
                Ok(_) => {
                    self.put((limit - old).max(0), 0);
                    return true;
                }
                Err(now) => {
                    self.put(fall, 0);
                    old = now;
                }
            }
        }
    }

    /// Returns the number of credits in use. Exact if no call runs concurrently.
    pub(super) fn in_use(&self) -> i64 {
        let unused = self.state().free() + self.parked();

        self.limit() - unused
    }

    /// Returns the number of credits parked in all slots. Exact if no call runs concurrently.
    pub(super) fn parked(&self) -> i64 {
        let mut parked = 0;

        self.slots.for_each(|slot| {
            parked += (slot.load(Relaxed) - 1).max(0);
        });
        parked
    }

    /// Returns the number of open slots. Exact if no call runs concurrently.
    #[cfg(kscale_kunit)]
    pub(super) fn open(&self) -> i64 {
        self.state().open()
    }

    fn state(&self) -> State {
        State(self.state.load(Relaxed))
    }

    /// Exchanges the state, unless it has changed.
    fn replace(&self, old: State, new: State) -> bool {
        self.state.cmpxchg(old.0, new.0, Full).is_ok()
    }

    /// Frees `credits` of the caller, and uncounts `closed` slots.
    fn put(&self, credits: i64, closed: i64) {
        self.state
            .fetch_add(State::new(credits, -closed).0, Release);
    }

    /// Parks `credits` of the caller in `slot` if its value is still `seen`, otherwise frees them.
    /// If `seen` is closed, the caller has counted the slot.
    fn park(&self, slot: &Atomic<i64>, seen: i64, credits: i64) {
        let opened = i64::from(seen == 0);

        if slot
            .cmpxchg(seen, seen + opened + credits, Release)
            .is_err()
        {
            self.put(credits, opened);
        }
    }

    /// Closes all slots, and returns their credits.
    fn close_all(&self) -> Drained {
        let mut drained = Drained::default();

        self.pacing.on_visit();
        self.slots.for_each(|slot| {
            if slot.load(Relaxed) != 0 {
                let seen = slot.xchg(0, Acquire);

                if seen != 0 {
                    drained.credits += seen - 1;
                    drained.slots += 1;
                }
            }
        });
        drained
    }

    /// Returns the share of one CPU in `free` credits.
    fn share(&self, free: i64) -> i64 {
        free.max(0) >> self.share_shift
    }

    /// Returns the capacity of a slot in credits, for requests of `count`.
    fn room(&self, state: State, count: i64) -> i64 {
        if state.free() < 0 {
            return 0;
        }
        // OVERFLOW: `count` is at most `MAX_LIMIT`, and there are less than 2^16 CPUs.
        self.share(state.free())
            .max(count * KEPT_REQUESTS)
            .min(count * self.refill_requests * 2)
    }
}
