// SPDX-License-Identifier: GPL-2.0

//! Without `INTEGRITY_PAYLOADS`, the per-bio data of a remapped bio is not dropped, so it must have
//! no payload.

use kernel::prelude::*;

use kscale::block::{
    bio::IntegrityPayload,
    dm, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Tagger {
    device: dm::DeviceIndex,
}

#[vtable]
impl dm::Target for Tagger {
    const NAME: &'static CStr = c"tagger";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let device = builder.get_device(c"/dev/null", 0)?;
        Ok(try_pin_init!(Self { device }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        if let Some(payload) = IntegrityPayload::new(8) {
            bio.set_integrity(payload);
        }
        bio.remap(self.device, 0)
    }
}

pub fn register() -> Result {
    dm::Registration::<Tagger>::new(()).map(drop)
}
