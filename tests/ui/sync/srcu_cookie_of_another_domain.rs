// SPDX-License-Identifier: GPL-2.0

//! A cookie knows its domain, so there is no other to ask.

use kscale::sync::srcu::{
    Domain,
    Normal, //
};

fn polls(one: &Domain<Normal>, other: &Domain<Normal>) -> bool {
    other.poll(one.start_poll())
}
