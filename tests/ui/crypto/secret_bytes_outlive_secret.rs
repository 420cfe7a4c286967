// SPDX-License-Identifier: GPL-2.0

//! The bytes of a key are wiped and freed with it, so they must not be borrowed any longer.

use kscale::crypto::secret::SecretBytes;

fn uses(key: SecretBytes, uses: fn(&[u8])) {
    let bytes = key.as_bytes();
    drop(key);
    uses(bytes);
}
