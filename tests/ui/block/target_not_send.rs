// SPDX-License-Identifier: GPL-2.0

//! A target may be dropped by another task than the one that made it, so it must be [`Send`].

use kernel::{
    prelude::*,
    sync::MutexGuard, //
};

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Locking {
    _guard: Option<MutexGuard<'static, u64>>,
}

#[vtable]
impl dm::Target for Locking {
    const NAME: &'static CStr = c"locking";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        _builder: &mut dm::TargetBuilder<'_>,
        _args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        Ok(try_pin_init!(Self { _guard: None }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}
