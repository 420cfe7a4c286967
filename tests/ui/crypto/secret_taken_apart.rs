// SPDX-License-Identifier: GPL-2.0

//! The bytes of a key must not be moved out of it, as they would not be wiped then.

use kernel::prelude::*;

use kscale::crypto::secret::SecretBytes;

fn takes(key: SecretBytes) -> KVec<u8> {
    key.bytes
}
