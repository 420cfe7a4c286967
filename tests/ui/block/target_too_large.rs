// SPDX-License-Identifier: GPL-2.0

//! The kernel warns of an allocation for a target of more than 4 MiB.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Large {
    bytes: [u8; 5 << 20],
}

#[vtable]
impl dm::Target for Large {
    const NAME: &'static CStr = c"large";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(try_pin_init!(Self { bytes <- pin_init::init_zeroed() }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}

pub fn register() -> Result {
    dm::Registration::<Large>::new(()).map(drop)
}
