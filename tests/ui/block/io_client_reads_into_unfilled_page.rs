// SPDX-License-Identifier: GPL-2.0

//! A read may fail, and the bytes of a page that were never written must not be read.

use kscale::{
    block::dm,
    mm::page::Page, //
};

fn reads(client: &dm::IoClient, region: dm::Region, page: &mut Page) {
    let _ = client.read(region, page);
}
