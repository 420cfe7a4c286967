// SPDX-License-Identifier: GPL-2.0

//! The function of an asynchronous read may run later, so it must not borrow.

use kscale::{
    block::dm,
    mm::page::FilledPage, //
};

fn reads(client: &dm::IoClient, region: dm::Region, page: FilledPage) {
    let mut is_done = false;
    client.read_async(region, page, |_, _| is_done = true);
}
