// SPDX-License-Identifier: GPL-2.0

//! A bio may end on another CPU than the one it came to, so its data must be [`Send`].

use kernel::{
    prelude::*,
    sync::rcu, //
};

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Guarding {}

#[vtable]
impl dm::Target for Guarding {
    const NAME: &'static CStr = c"guarding";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = Option<rcu::Guard>;

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
