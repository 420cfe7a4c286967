// SPDX-License-Identifier: GPL-2.0

//! Limits the number of bytes in flight, for senders on all CPUs.

use kernel::prelude::*;

use kscale::percpu::limiter::{
    CreditLimiter,
    Credits, //
};

/// A request with the credits for its bytes.
struct Request<'a> {
    /// Returned when the request is dropped.
    bytes: Credits<'a>,
}

/// Returns a request if the limit allows it.
///
/// Context: Any context. Never sleeps.
fn send(in_flight: &CreditLimiter, len_bytes: u64) -> Result<Request<'_>> {
    Ok(Request {
        bytes: in_flight.acquire(len_bytes).ok_or(EAGAIN)?,
    })
}

pub(crate) fn example() -> Result {
    let in_flight = CreditLimiter::new(1 << 20)?;

    let mut request = send(&in_flight, 600 << 10)?;
    if send(&in_flight, 600 << 10).is_ok() {
        return Err(EINVAL);
    }
    // 300 KiB of the request have arrived.
    drop(request.bytes.split(300 << 10));
    send(&in_flight, 600 << 10)?;

    // The limit is lower from now on.
    in_flight.set_limit(1 << 19)?;
    pr_info!("{} bytes in flight\n", in_flight.in_use());
    Ok(())
}
