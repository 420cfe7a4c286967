// SPDX-License-Identifier: GPL-2.0

//! Copies of names that callers choose.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    str::CString, //
};

/// Copies a name.
///
/// Fails with [`EINVAL`] if it is longer than a page, and with [`ENOMEM`]. The kernel warns of an
/// allocation of more than 4 MiB.
///
/// Context: Process context. May sleep.
pub(crate) fn copy(name: &CStr) -> Result<CString> {
    if name.to_bytes().len() > PAGE_SIZE {
        return Err(EINVAL);
    }
    Ok(CString::try_from(name)?)
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_name)]
mod tests {
    use super::*;

    /// The kernel warns of an allocation of more than 4 MiB.
    #[test]
    fn long_names_are_not_copied() -> Result {
        for (len, error) in [
            (PAGE_SIZE, None),
            (PAGE_SIZE + 1, Some(EINVAL)),
            (5 << 20, Some(EINVAL)),
        ] {
            let mut bytes = KVVec::from_elem(b'a', len, GFP_KERNEL)?;
            bytes.push(0, GFP_KERNEL)?;
            let name = CStr::from_bytes_with_nul(&bytes).map_err(|_| EINVAL)?;
            assert_eq!(copy(name).err(), error);
        }
        Ok(())
    }
}
