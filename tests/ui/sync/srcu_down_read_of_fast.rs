// SPDX-License-Identifier: GPL-2.0

//! Guards of [`Fast`] readers may not be dropped elsewhere, so there is no `down_read()`.

use kscale::sync::srcu::{
    Domain,
    Fast, //
};

fn reads(domain: &Domain<Fast>) {
    drop(domain.down_read());
}
