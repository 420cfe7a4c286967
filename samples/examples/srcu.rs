// SPDX-License-Identifier: GPL-2.0

use kernel::prelude::*;

use kscale::sync::srcu::{
    new_domain,
    new_list,
    new_pointer,
    Domain,
    Fast,
    Item,
    List,
    Pointer, //
};

/// A configuration for readers, and a list of listeners for a new configuration.
struct Service {
    config: Pin<KBox<Pointer<u32, Fast>>>,
    listeners: Pin<KBox<List<&'static str, Fast>>>,
}

pub(crate) fn example() -> Result {
    let domain: Domain<Fast> = new_domain!("example")?;
    let service = Service {
        config: KBox::try_pin_init(
            new_pointer!(domain.clone(), Item::new(1, GFP_KERNEL)?),
            GFP_KERNEL,
        )?,
        listeners: KBox::try_pin_init(new_list!(domain.clone()), GFP_KERNEL)?,
    };
    let item = Item::new("logger", GFP_KERNEL)?;
    let entry = service.listeners.lock().push_back(item);

    // A reader may sleep while it holds the guard. The guard is valid for both.
    let guard = domain.read_lock();
    let config = service.config.load(&guard)?;
    for listener in service.listeners.walk(&guard)? {
        pr_info!("{listener} receives {config}\n");
    }
    drop(guard);

    // A writer replaces the configuration and removes the listener, each under its lock. It waits
    // for readers after both locks are released.
    let new = Item::new(2, GFP_KERNEL)?;
    let old_config = service.config.lock().replace(new);
    let listener = service.listeners.lock().remove(entry);

    old_config.free_later();
    let listener = listener.map_err(|_| EINVAL)?.wait();
    pr_info!("{} is owned again\n", *listener);
    Ok(())
}
