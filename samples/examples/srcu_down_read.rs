// SPDX-License-Identifier: GPL-2.0

//! A request reads a configuration from its submission to its completion, in different tasks.

use kernel::prelude::*;

use kscale::sync::srcu::{
    new_domain,
    new_pointer,
    Domain,
    FastUpDown,
    Item,
    OwnedDownGuard,
    Pointer, //
};

type Config = Pointer<u32, FastUpDown>;

struct Request {
    /// Values that are loaded after the submission stay valid until the request is dropped.
    guard: OwnedDownGuard<FastUpDown>,
}

impl Request {
    fn submit(config: &Config) -> Self {
        let guard = config.domain().clone().into_down_read();
        Self { guard }
    }

    /// Completes the request. Any task may call it.
    fn complete(self, config: &Config) -> Result<u32> {
        Ok(*config.load(&self.guard)?)
    }
}

pub(crate) fn example() -> Result {
    let domain: Domain<FastUpDown> = new_domain!("example_down_read")?;
    let item = Item::new(7, GFP_KERNEL)?;
    let config = KBox::try_pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;

    let request = Request::submit(&config);
    pr_info!("completed with {}\n", request.complete(&config)?);

    // A guard for one function borrows its domain, which costs no reference.
    let guard = domain.down_read();
    pr_info!("configured with {}\n", *config.load(&guard)?);
    Ok(())
}
