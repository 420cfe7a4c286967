// SPDX-License-Identifier: GPL-2.0

//! A device writes the bytes of a read, so nobody else may read them meanwhile.

use kscale::{
    block::dm,
    mm::page::FilledPage, //
};

fn reads(client: &dm::IoClient, region: dm::Region, page: &FilledPage) {
    let _ = client.read(region, page);
}
