// SPDX-License-Identifier: GPL-2.0

//! Each copy of a key is one more to wipe, so it must not be cloned.

use kscale::crypto::secret::Key;

fn clones(key: Key) -> [Key; 2] {
    [key.clone(), key]
}
