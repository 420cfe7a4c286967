// SPDX-License-Identifier: GPL-2.0

//! The bytes of a page must not change while they are borrowed.

use kscale::mm::page::FilledPage;

fn writes(mut page: FilledPage, uses: fn(&[u8])) {
    let bytes = page.as_slice();
    page.as_mut_slice().fill(0);
    uses(bytes);
}
