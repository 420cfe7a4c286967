// SPDX-License-Identifier: GPL-2.0

//! The bytes of a page are freed with it, so they must not be borrowed any longer.

use kscale::mm::page::FilledPage;

fn uses(page: FilledPage, uses: fn(&[u8])) {
    let bytes = page.as_slice();
    drop(page);
    uses(bytes);
}
