// SPDX-License-Identifier: GPL-2.0

//! Device mapper keeps the name of a target, so it must be static.

use kernel::prelude::*;

use kscale::block::dm;

fn registers<T: dm::Target<ModuleData = ()>>(name: &CStr) -> Result<dm::Registration<T>> {
    dm::Registration::with_name(name, ())
}
