// SPDX-License-Identifier: GPL-2.0

//! Polled grace periods.

use kernel::prelude::*;

use core::{
    fmt,
    ptr, //
};

use crate::bindings;

use super::{
    domain::{
        Domain,
        DomainInner, //
    },
    flavor::Flavor, //
};

impl<F: Flavor> Domain<F> {
    /// Starts a grace period, and returns a cookie that polls for its end.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `start_poll_synchronize_srcu()` in
    /// `kernel/rcu/srcutree.c`.
    #[inline]
    pub fn start_poll(&self) -> Cookie<'_> {
        Cookie {
            inner: self.inner(),
            // SAFETY: The domain is initialised by the invariants of `DomainInner`.
            state: unsafe { bindings::start_poll_synchronize_srcu(self.as_raw()) },
        }
    }

    /// Returns a cookie that polls for a grace period, without starting one.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `get_state_synchronize_srcu()` in
    /// `kernel/rcu/srcutree.c`.
    #[inline]
    pub fn get_state(&self) -> Cookie<'_> {
        Cookie {
            inner: self.inner(),
            // SAFETY: The domain is initialised by the invariants of `DomainInner`.
            state: unsafe { bindings::get_state_synchronize_srcu(self.as_raw()) },
        }
    }
}

/// A point in the sequence of grace periods of one domain.
///
/// A cookie borrows its domain. Two cookies are equal if they are of the same domain and their
/// grace periods end together (C: `same_state_synchronize_srcu()`).
#[derive(Clone, Copy)]
pub struct Cookie<'a> {
    inner: &'a DomainInner,
    state: c_ulong,
}

impl Cookie<'_> {
    /// Returns whether a grace period has passed since the cookie was created.
    ///
    /// Context: Any context. Never sleeps. C: `poll_state_synchronize_srcu()` in
    /// `kernel/rcu/srcutree.c`.
    #[inline]
    pub fn poll(&self) -> bool {
        // SAFETY: The domain is initialised by the invariants of `DomainInner`, and the cookie is
        // of this domain.
        unsafe { bindings::poll_state_synchronize_srcu(self.inner.as_raw(), self.state) }
    }
}

impl PartialEq for Cookie<'_> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.inner, other.inner) && self.state == other.state
    }
}

impl Eq for Cookie<'_> {}

impl fmt::Debug for Cookie<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cookie").field(&self.state).finish()
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_poll)]
mod tests {
    use super::*;

    use super::super::{
        new_domain,
        testing::nap,
        Fast,
        Normal, //
    };

    #[test]
    fn a_grace_period_that_was_started_ends() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        // Without a reader, the grace period may end before this task continues.
        let guard = domain.read_lock();
        let cookie = domain.start_poll();

        assert!(!cookie.poll());
        drop(guard);
        while !cookie.poll() {
            nap();
        }
        assert!(cookie.poll());
        Ok(())
    }

    #[test]
    fn get_state_starts_no_grace_period() -> Result {
        let domain: Domain<Fast> = new_domain!()?;
        let cookie = domain.get_state();

        nap();
        assert!(!cookie.poll());
        domain.synchronize();
        assert!(cookie.poll());
        Ok(())
    }

    #[test]
    fn cookies_of_two_domains_differ() -> Result {
        let one: Domain<Normal> = new_domain!()?;
        let other: Domain<Normal> = new_domain!()?;

        assert_eq!(one.get_state(), one.get_state());
        assert!(one.get_state() != other.get_state());
        one.synchronize();
        assert!(!other.get_state().poll());
        Ok(())
    }
}
