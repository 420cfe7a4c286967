// SPDX-License-Identifier: GPL-2.0

//! Device mapper has the data of a bio in memory of less than a page, so it must fit in.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Buffer(#[expect(dead_code)] [u8; 4096]);

impl Default for Buffer {
    fn default() -> Self {
        Self([0; 4096])
    }
}

#[pin_data]
struct Large {}

#[vtable]
impl dm::Target for Large {
    const NAME: &'static CStr = c"large";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = Buffer;

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
    dm::Registration::<Large>::new(()).map(drop)
}
