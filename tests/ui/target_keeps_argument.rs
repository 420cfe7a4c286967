// SPDX-License-Identifier: GPL-2.0

//! The arguments are freed when `ctr` returns, so a target must not keep one.

use kernel::prelude::*;

use kscale::dm;

use module::Case as LocalModule;

#[path = "common/module.rs"]
mod module;

#[pin_data]
struct Keeping {
    path: &'static CStr,
}

#[vtable]
impl dm::Target for Keeping {
    const NAME: &'static CStr = c"keeping";
    const VERSION: [u32; 3] = [1, 0, 0];
    type PerBio = ();

    fn ctr(
        _table: &mut dm::Table<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing path")?;
        Ok(try_pin_init!(Self { path }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::Map<'a, Self> {
        bio.kill()
    }
}
