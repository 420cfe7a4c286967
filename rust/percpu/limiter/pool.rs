// SPDX-License-Identifier: GPL-2.0

//! The algorithm of the credit limiters, whatever the atomics and the CPUs.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s of either.
//!
//! # Where credits are
//!
//! Each credit of the limit is in one of these places:
//!
//! - *free*, counted in the one [`State`] that all CPUs share;
//! - *parked* in the slot of a CPU, for that CPU's next requests;
//! - *in the hand* of a call that moves it from one of these to the other;
//! - *in use*.
//!
//! Credits move by atomic operations on one place at a time, so none is ever in two places, and
//! more than the limit are never in use. What a lower limit takes away may be in use still, and
//! then `free` is negative; nothing is admitted before it is not, from parked credits neither.
//!
//! A slot is *closed*, and then holds nothing, or *open*. The state counts the open slots beside the
//! free credits, in one word: a slot is counted before it opens, and until the credits that were in
//! it when it was closed are free. Hence whoever sees too few free credits and no open slot knows
//! that there are none elsewhere but in hands. Whoever sees open slots closes them all, and decides
//! after that; once only, as others could go on to open them, so what is parked in a slot after its
//! turn is missed. A task that parked it there finds it, however, when it asks the next time.
//!
//! A CPU parks credits while plenty are free only, so next to the limit the slots are closed, and a
//! request costs one atomic operation on the state. To open a slot takes about as many free credits
//! as there are slots, so those who have to look at every slot do so once in as many requests, if
//! these are alike.

use super::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};

/// The largest limit, and the most credits that one call can ask for.
///
/// There is room for a hundred calls that lower a limit of this size at once, see
/// [`MIN_FREE`].
pub(super) const MAX_LIMIT: i64 = 1 << 40;

/// The fewest free credits that [`Pool::charge`] leaves: far from what [`State`] has room for.
const MIN_FREE: i64 = -(1 << 46);

/// Requests of one size that a slot gets credits for at once.
const REFILL_REQUESTS: i64 = 32;

/// Requests of one size that a slot has credits for at most.
const PARKED_REQUESTS: i64 = 64;

/// Free credits and open slots, as one word.
///
/// The credits are the upper 48 bits, signed, so adding to the word adds to them.
#[derive(Clone, Copy)]
struct State(i64);

impl State {
    const OPEN_BITS: u32 = 16;

    /// Half of what there is room for: calls that open a slot check it first.
    const MAX_OPEN: i64 = 1 << (Self::OPEN_BITS - 1);

    /// Also what adding to the word takes, which may be negative.
    const fn new(free: i64, open: i64) -> Self {
        // OVERFLOW: `free` stays between `MIN_FREE` and `MAX_LIMIT`, give or take `MAX_LIMIT` for
        // each of the calls that run at the moment.
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
/// A closed slot is 0, an open one is 1 more than the credits parked in it.
pub(super) trait Slots {
    /// Returns the slot of this CPU, or of one that the caller ran on a moment ago.
    fn local(&self) -> &Atomic<i64>;

    /// Calls `f` with the slot of every CPU that may ever have run.
    fn for_each(&self, f: impl FnMut(&Atomic<i64>));
}

/// What a call has taken from slots.
#[derive(Default)]
struct Hand {
    credits: i64,
    slots: i64,
}

/// The credits of a limiter.
///
/// # Invariants
///
/// - At any time, the credits that are free, parked, in a hand or in use are `limit` in all, or
///   less while [`set_limit()`](Self::set_limit) runs.
/// - `state` counts the slots that are open, that a call is about to open, or that were closed
///   by a call which has what was parked there in its hand.
pub(super) struct Pool<S> {
    state: Atomic<i64>,
    limit: Atomic<i64>,
    /// One CPU's part of what is free is the free credits divided by two to the power of this.
    share_shift: u32,
    slots: S,
}

impl<S: Slots> Pool<S> {
    /// Creates a pool of `limit` credits. All of `slots`, which are of `cpus` CPUs, are closed.
    pub(super) fn new(limit: i64, slots: S, cpus: usize) -> Self {
        // INVARIANT: All credits are free, and no slot is open.
        Self {
            state: Atomic::new(State::new(limit, 0).0),
            limit: Atomic::new(limit),
            // All CPUs together get up to half of what is free.
            share_shift: cpus.max(1).next_power_of_two().trailing_zeros() + 1,
            slots,
        }
    }

    /// Returns the limit.
    pub(super) fn limit(&self) -> i64 {
        self.limit.load(Relaxed)
    }

    /// Takes `count` credits, from 1 to [`MAX_LIMIT`], if there are as many.
    #[inline]
    pub(super) fn acquire(&self, count: i64) -> bool {
        let slot = self.slots.local();
        let parked = slot.load(Relaxed);

        // Parked credits are no one's to have while the limit is exceeded.
        if parked > count
            && self.state().free() >= 0
            && slot.cmpxchg(parked, parked - count, Acquire).is_ok()
        {
            return true;
        }
        self.acquire_free(count)
    }

    /// As [`acquire`](Self::acquire), from what is free.
    fn acquire_free(&self, count: i64) -> bool {
        let mut hand = Hand::default();
        let mut may_close = true;

        loop {
            let state = self.state();
            let free = state.free() + hand.credits;
            let open = state.open() - hand.slots;

            if free >= count {
                if self.take(state, free - count, open, count) {
                    return true;
                }
            } else if open != 0 && may_close {
                hand = self.close_all();
                may_close = false;
            } else if hand.slots == 0 || self.replace(state, State::new(free, open)) {
                // Too few, at the moment of the load or of the exchange.
                return false;
            }
        }
    }

    /// Makes `left` credits free and `open` slots counted if the state is still `state`, and parks
    /// some of them for more requests of `count` credits.
    fn take(&self, state: State, left: i64, open: i64, count: i64) -> bool {
        let slot = self.slots.local();
        let seen = slot.load(Relaxed);
        let opens = i64::from(seen == 0);
        let spare = self.share(left).min(count * REFILL_REQUESTS);

        if spare < count || open >= State::MAX_OPEN {
            return self.replace(state, State::new(left, open));
        }
        let taken = self.replace(state, State::new(left - spare, open + opens));
        if taken {
            self.park(slot, seen, spare);
        }
        taken
    }

    /// Gives `count` credits back, which were taken.
    #[inline]
    pub(super) fn release(&self, count: i64) {
        let slot = self.slots.local();
        let seen = slot.load(Relaxed);
        let room = self.room(self.state(), count);

        // OVERFLOW: `room` is below 2^47.
        if seen > 0 && seen - 1 <= room - count {
            if slot.cmpxchg(seen, seen + count, Release).is_ok() {
                return;
            }
        }
        self.release_free(count);
    }

    /// As [`release`](Self::release), if the credits cannot just be parked.
    fn release_free(&self, count: i64) {
        let state = self.state();
        let slot = self.slots.local();
        let seen = slot.load(Relaxed);
        let room = self.room(state, count);

        if seen == 0 {
            let opened = State(state.0 + 1);

            if count <= room && state.open() < State::MAX_OPEN && self.replace(state, opened) {
                return self.park(slot, seen, count);
            }
        } else if seen - 1 > room - count {
            // Leaves half of the room, so as not to be here again at once, or closes the slot.
            let left = if room < 2 { 0 } else { 1 + room / 2 };
            let spilled = seen - left.max(1);

            if (spilled > 0 || left == 0) && slot.cmpxchg(seen, left, Acquire).is_ok() {
                return self.put(count + spilled, i64::from(left == 0));
            }
        }
        self.put(count, 0);
    }

    /// Takes `count` credits, from 1 to [`MAX_LIMIT`], even if there are none.
    ///
    /// Fails if next to 2^46 were taken so already.
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

    /// Gives `count` credits back, from 1 to [`MAX_LIMIT`], unless that many cannot be in use.
    ///
    /// For callers who may be wrong about it: the counts stay in range then, which is all.
    pub(super) fn uncharge(&self, count: i64) {
        if count <= MAX_LIMIT - self.state().free() {
            self.release(count);
        }
    }

    /// Changes the limit, to one from 0 to [`MAX_LIMIT`].
    ///
    /// The sum of the credits follows a limit that falls before, and one that rises after `limit`
    /// has changed: so it exceeds none of the limits of calls that run at once.
    ///
    /// Fails if more than fifty calls lower it by almost as much as possible at once.
    pub(super) fn set_limit(&self, limit: i64) -> bool {
        let mut old = self.limit.load(Relaxed);

        loop {
            let fall = (old - limit).max(0);

            if fall > 0 && !self.charge(fall) {
                return false;
            }
            // `Relaxed`: what moves the credits that go with it orders it. That is `charge()` before,
            // which is `Full`, and `put()` after, which is `Release`.
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

    /// Returns the credits in use, exactly if no call is running.
    pub(super) fn in_use(&self) -> i64 {
        let mut unused = self.state().free();

        self.slots.for_each(|slot| {
            unused += (slot.load(Relaxed) - 1).max(0);
        });
        self.limit() - unused
    }

    /// Returns the number of open slots, exactly if no call is running.
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

    /// Makes `credits` free that the caller has, and counts `closed` slots less.
    fn put(&self, credits: i64, closed: i64) {
        self.state
            .fetch_add(State::new(credits, -closed).0, Release);
    }

    /// Parks `credits` that the caller has in `slot`, which was `seen`; makes them free if it is
    /// another. If it was closed, the caller has counted it.
    fn park(&self, slot: &Atomic<i64>, seen: i64, credits: i64) {
        let opened = i64::from(seen == 0);

        if slot
            .cmpxchg(seen, seen + opened + credits, Release)
            .is_err()
        {
            self.put(credits, opened);
        }
    }

    /// Closes all slots.
    fn close_all(&self) -> Hand {
        let mut hand = Hand::default();

        self.slots.for_each(|slot| {
            if slot.load(Relaxed) != 0 {
                let seen = slot.xchg(0, Acquire);

                if seen != 0 {
                    hand.credits += seen - 1;
                    hand.slots += 1;
                }
            }
        });
        hand
    }

    /// Returns one CPU's part of `free` credits.
    fn share(&self, free: i64) -> i64 {
        free.max(0) >> self.share_shift
    }

    /// Returns how many credits a slot may hold, for requests of `count`.
    fn room(&self, state: State, count: i64) -> i64 {
        // OVERFLOW: `count` is `MAX_LIMIT` at most, so this is 2^46 at most.
        self.share(state.free()).min(count * PARKED_REQUESTS)
    }
}
