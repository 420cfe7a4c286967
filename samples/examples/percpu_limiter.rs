// SPDX-License-Identifier: GPL-2.0

//! Limits the number of bytes in flight, for senders on all CPUs.

use kernel::prelude::*;

use kscale::percpu::limiter::CreditCounter;

/// A request whose bytes are charged to a limit.
struct Request<'a> {
    in_flight: &'a CreditCounter,
    len_bytes: u64,
}

impl<'a> Request<'a> {
    /// Returns a request if the limit allows it.
    ///
    /// Context: Any context. Never sleeps.
    fn send(in_flight: &'a CreditCounter, len_bytes: u64) -> Result<Self> {
        if !in_flight.try_charge(len_bytes) {
            return Err(EAGAIN);
        }
        Ok(Self {
            in_flight,
            len_bytes,
        })
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.in_flight.uncharge(self.len_bytes);
    }
}

pub(crate) fn example() -> Result {
    let in_flight = CreditCounter::new(1 << 20)?;

    let request = Request::send(&in_flight, 600 << 10)?;
    if Request::send(&in_flight, 600 << 10).is_ok() {
        return Err(EINVAL);
    }
    drop(request);
    Request::send(&in_flight, 600 << 10)?;

    // The limit is lower from now on.
    in_flight.set_limit(1 << 19)?;
    pr_info!("{} bytes in flight\n", in_flight.in_use());
    Ok(())
}
