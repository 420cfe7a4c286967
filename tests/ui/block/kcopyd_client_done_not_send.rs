// SPDX-License-Identifier: GPL-2.0

//! The function of an asynchronous copy runs in another task.

use kscale::block::dm;

struct NotSend(*mut u8);

fn copies(client: &dm::KcopydClient, region: dm::Region, value: NotSend) {
    client.copy_async(region, &[region], move |_| drop(value));
}
