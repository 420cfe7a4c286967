// SPDX-License-Identifier: GPL-2.0

//! A failure must be a status that C knows, and not success, so it must not be made of a number.

use core::num::NonZeroU32;

use kscale::block::bio::BlkError;

fn makes_up() -> BlkError {
    BlkError(NonZeroU32::MAX)
}
