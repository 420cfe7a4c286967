// SPDX-License-Identifier: GPL-2.0

//! The name of a device is freed with the device, so it must not be kept.

use kscale::block::dm;

fn name(out: &dm::StatusBuf<'_>, device: dm::DeviceIndex) -> Option<&'static str> {
    out.device_name(device)
}
