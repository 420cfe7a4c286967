// SPDX-License-Identifier: GPL-2.0

//! Text that a target writes for userspace.

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*, //
};

use super::devices::{
    DeviceIndex,
    Devices, //
};

/// Text for userspace in the status and message callbacks. Text that does not fit is truncated.
///
/// Device mapper detects a full buffer, and userspace repeats the call with a larger one.
///
/// # Invariants
///
/// `buf[..len]` is the text and `buf[len]` is NUL, unless `buf` is empty.
pub struct StatusBuf<'a> {
    buf: &'a mut [u8],
    len: usize,
    devices: &'a Devices,
}

impl<'a> StatusBuf<'a> {
    /// Wraps the buffer.
    pub(super) fn new(buf: &'a mut [u8], devices: &'a Devices) -> Self {
        if let Some(first) = buf.first_mut() {
            *first = 0;
        }
        // INVARIANT: No text yet, and a NUL if there is room for one.
        Self {
            buf,
            len: 0,
            devices,
        }
    }

    /// Returns the text with its NUL.
    pub(super) fn as_bytes_with_nul(&self) -> &[u8] {
        self.buf.get(..=self.len).unwrap_or_default()
    }

    /// Returns whether the text is empty.
    ///
    /// Context: Any context. Never sleeps.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the prefix of measured attributes, as `DMEMIT_TARGET_NAME_VERSION()` does in C.
    pub(super) fn write_target(&mut self, name: &CStr, version: [u32; 3]) -> fmt::Result {
        let name = name.to_str().unwrap_or_default();
        let [major, minor, patch] = version;

        write!(
            self,
            "target_name={name},target_version={major}.{minor}.{patch}"
        )
    }

    /// Returns the device number as `major:minor`, or [`None`] for a device of another target.
    ///
    /// Context: Any context. Never sleeps.
    pub fn device_name(&self, device: DeviceIndex) -> Option<&'a str> {
        self.devices.name(device)
    }
}

impl fmt::Write for StatusBuf<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buf.len().saturating_sub(self.len).saturating_sub(1);
        let count = text.len().min(room);
        let end = self.len + count;

        if let (Some(to), Some(from)) = (
            self.buf.get_mut(self.len..end),
            text.as_bytes().get(..count),
        ) {
            to.copy_from_slice(from);
        }
        if let Some(nul) = self.buf.get_mut(end) {
            *nul = 0;
        }
        // INVARIANT: `count` bytes were added, followed by a NUL. Without room, neither was
        // written.
        self.len = end;
        Ok(())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_status)]
mod tests {
    use super::*;

    #[test]
    fn target_name_and_version_match_c() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 64];
        let mut out = StatusBuf::new(&mut buf, &devices);

        assert!(out.write_target(c"crypt", [1, 29, 0]).is_ok());
        assert_eq!(
            out.as_bytes_with_nul(),
            b"target_name=crypt,target_version=1.29.0\0"
        );
    }

    /// Userspace gets the buffer of a target that writes nothing, too.
    #[test]
    fn no_text_is_an_empty_string() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 4];
        assert_eq!(
            StatusBuf::new(&mut buf, &devices).as_bytes_with_nul(),
            b"\0"
        );
        assert_eq!(StatusBuf::new(&mut [], &devices).as_bytes_with_nul(), b"");
    }

    #[test]
    fn long_text_is_truncated_and_terminated() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 6];
        let mut out = StatusBuf::new(&mut buf, &devices);
        assert!(out.is_empty());
        assert!(out.write_str("abc").is_ok());
        assert!(out.write_str("defg").is_ok());
        assert!(out.write_str("h").is_ok());
        assert!(!out.is_empty());
        assert_eq!(&buf, b"abcde\0");

        let mut out = StatusBuf::new(&mut [], &devices);
        assert!(out.write_str("abc").is_ok());
        assert!(out.is_empty());
    }
}
