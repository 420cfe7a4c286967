// SPDX-License-Identifier: GPL-2.0

//! A secret argument is wiped when its handle is dropped, so its bytes must not be borrowed longer.

use kscale::block::dm;

fn digits<'a>(args: &mut dm::Args<'a>) -> Result<&'a [u8], dm::CtrError> {
    Ok(args.secret(c"missing key")?.as_bytes())
}
