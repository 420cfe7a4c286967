// SPDX-License-Identifier: GPL-2.0

//! A key must not be printed by mistake, so it has no `{}`.

use kernel::{
    prelude::*,
    str::CString, //
};

use kscale::crypto::secret::SecretBytes;

fn prints(key: &SecretBytes) -> Result<CString> {
    Ok(CString::try_from_fmt(fmt!("{key}"))?)
}
