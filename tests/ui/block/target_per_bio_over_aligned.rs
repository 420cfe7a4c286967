// SPDX-License-Identifier: GPL-2.0

//! Device mapper aligns the data of a bio to 8 bytes, so it must not need more.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[derive(Default)]
#[repr(align(16))]
struct Iv(#[expect(dead_code)] [u8; 16]);

#[pin_data]
struct Aligned {}

#[vtable]
impl dm::Target for Aligned {
    const NAME: &'static CStr = c"aligned";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = Iv;

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(try_pin_init!(Self {}))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}

pub fn register() -> Result {
    dm::Registration::<Aligned>::new(()).map(drop)
}
