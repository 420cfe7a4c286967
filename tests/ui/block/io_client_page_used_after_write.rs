// SPDX-License-Identifier: GPL-2.0

//! The device reads the bytes of a write until the write has ended.

use kscale::{
    block::dm,
    mm::page::FilledPage, //
};

fn writes(client: &dm::IoClient, region: dm::Region, mut page: FilledPage) {
    client.write_async(region, page, |_, _| {});
    page.as_mut_slice().fill(0);
}
