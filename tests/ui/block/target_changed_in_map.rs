// SPDX-License-Identifier: GPL-2.0

//! `map` runs on all CPUs at once, so it must not change the target.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Counting {
    mapped: u64,
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
        Ok(try_pin_init!(Self { mapped: 0 }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        self.mapped += 1;
        bio.kill()
    }
}
