// SPDX-License-Identifier: GPL-2.0

//! A target lives as long as its table, which nobody knows, so it must have no reference in it.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Holding<R> {
    name: R,
}

#[vtable]
impl<R: Copy + Default + Send + Sync> dm::Target for Holding<R> {
    const NAME: &'static CStr = c"holding";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(try_pin_init!(Self { name: R::default() }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}
