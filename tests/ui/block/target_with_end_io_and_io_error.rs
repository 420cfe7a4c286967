// SPDX-License-Identifier: GPL-2.0

//! A target with `end_io` gets the errors there: `io_error` would never be called.

use kernel::prelude::*;

use kscale::block::dm;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

#[pin_data]
struct Both {}

#[vtable]
impl dm::Target for Both {
    const NAME: &'static CStr = c"both";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

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

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        bio.done()
    }

    fn io_error(self: Pin<&Self>, _error: dm::IoError) {}
}

pub fn register() -> Result {
    dm::Registration::<Both>::new(()).map(drop)
}
