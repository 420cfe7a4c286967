// SPDX-License-Identifier: GPL-2.0

//! A guard is dropped by the task that took it, so it must not be [`Send`].

use kscale::sync::srcu::{
    Domain,
    Normal, //
};

fn sends<T: Send>(_: T) {}

fn gives_away(domain: &Domain<Normal>) {
    sends(domain.read_lock());
}
