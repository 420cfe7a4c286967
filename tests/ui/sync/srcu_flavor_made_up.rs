// SPDX-License-Identifier: GPL-2.0

//! A domain does what one of its flavors does in C, so there are no others.

use kscale::sync::srcu::Flavor;

enum Lite {}

impl Flavor for Lite {}
