// SPDX-License-Identifier: GPL-2.0

//! All targets of a registration share its data, so the data must be [`Sync`].

use kernel::prelude::*;

use core::cell::Cell;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Counting {}

#[vtable]
impl dm::Target for Counting {
    const NAME: &'static CStr = c"counting";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = Cell<u64>;
    type PerBio = ();

    fn ctr(
        count: &Cell<u64>,
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        count.set(count.get() + 1);
        Ok(try_pin_init!(Self {}))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}
