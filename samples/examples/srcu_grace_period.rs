// SPDX-License-Identifier: GPL-2.0

//! The ways to wait for a grace period, and to free an item after it.

use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use kscale::sync::srcu::{
    new_domain,
    new_pointer,
    Domain,
    Fast,
    Item, //
};

pub(crate) fn example() -> Result {
    let domain: Domain<Fast> = new_domain!("example_grace_period")?;
    let item = Item::new(1, GFP_KERNEL)?;
    let config = KBox::try_pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;
    let replace = |value| -> Result<_> {
        let item = Item::new(value, GFP_KERNEL)?;
        Ok(config.lock().replace(item))
    };

    // The destructor may sleep: it runs in a worker.
    replace(2)?.free_in_workqueue();

    // Ends sooner, but takes more CPU time.
    let two = replace(3)?.wait_expedited();
    pr_info!("{} is owned again\n", two.into_inner());

    // A task that has other work polls.
    let mut retired = replace(4)?;
    let three = loop {
        match retired.try_wait() {
            Ok(item) => break item,
            Err(again) => retired = again,
        }
        fsleep(Delta::from_millis(1));
    };
    pr_info!("{} is owned again\n", three.into_inner());

    // Waits only if no grace period has passed since `get_state()`.
    let cookie = domain.get_state();
    fsleep(Delta::from_millis(1));
    if !cookie.poll() {
        domain.synchronize_expedited();
    }

    // Starts a grace period now, and waits for it later.
    let cookie = domain.start_poll();
    while !cookie.poll() {
        fsleep(Delta::from_millis(1));
    }

    // Waits for the workers and callbacks.
    domain.barrier();
    Ok(())
}
