// SPDX-License-Identifier: GPL-2.0

//! Device mapper counts the bios of an operation in 32 bits with a sign, and allocates all of them,
//! so a number must not exceed 16 bits.

use kscale::block::dm;

fn requests(builder: &mut dm::TargetBuilder<'_>, count: u32) {
    builder.set_num_flush_bios(count);
    builder.set_num_discard_bios(count);
    builder.set_num_secure_erase_bios(count);
    builder.set_num_write_zeroes_bios(count);
}
