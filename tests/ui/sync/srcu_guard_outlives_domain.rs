// SPDX-License-Identifier: GPL-2.0

//! Dropping a domain waits for its guards, so none may be left in this task.

use kscale::sync::srcu::{
    Domain,
    Fast, //
};

fn drops_domain(domain: Domain<Fast>) {
    let guard = domain.read_lock();
    drop(domain);
    drop(guard);
}
