// SPDX-License-Identifier: GPL-2.0

//! Lets no more than so many bytes be in flight, whoever sends them.

use kernel::prelude::*;

use kscale::percpu::limiter::{
    CreditLimiter,
    Credits, //
};

/// What is sent, and the right to send it.
struct Request<'a> {
    /// Goes back when the request is dropped.
    bytes: Credits<'a>,
}

/// From any context, on any CPU.
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
    // Half of it has arrived.
    drop(request.bytes.split(300 << 10));
    send(&in_flight, 600 << 10)?;

    // There is less memory for all from now on.
    in_flight.set_limit(1 << 19)?;
    pr_info!("{} bytes in flight\n", in_flight.in_use());
    Ok(())
}
