// SPDX-License-Identifier: GPL-2.0

//! `map` runs on all CPUs at once, so a target must be [`Sync`].

use kernel::prelude::*;

use core::cell::Cell;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Counting {
    mapped: Cell<u64>,
}

#[vtable]
impl dm::Target for Counting {
    const NAME: &'static CStr = c"counting";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(try_pin_init!(Self {
            mapped: Cell::new(0),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        self.mapped.set(self.mapped.get() + 1);
        bio.kill()
    }
}
