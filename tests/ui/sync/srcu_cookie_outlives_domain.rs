// SPDX-License-Identifier: GPL-2.0

//! A cookie is asked of the domain that made it.

use kscale::sync::srcu::{
    Domain,
    Normal, //
};

fn polls(domain: Domain<Normal>) -> bool {
    let cookie = domain.start_poll();
    drop(domain);
    cookie.poll()
}
