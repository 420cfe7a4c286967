// SPDX-License-Identifier: GPL-2.0

//! Each copy of a key is one more to wipe, so it must not be cloned.

use kscale::crypto::secret::SecretBytes;

fn clones(key: SecretBytes) -> [SecretBytes; 2] {
    [key.clone(), key]
}
