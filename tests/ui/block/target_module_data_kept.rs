// SPDX-License-Identifier: GPL-2.0

//! A target must not keep a reference to the data of its registration, only an `Arc` of it.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Keeping {
    data: &'static u64,
}

#[vtable]
impl dm::Target for Keeping {
    const NAME: &'static CStr = c"keeping";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = u64;
    type PerBio = ();

    fn ctr(
        data: &u64,
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(try_pin_init!(Self { data }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}
