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
pub struct StatusBuf<'a> {
    text: Text<'a>,
    devices: &'a Devices,
}

/// A text and its memory.
enum Text<'a> {
    /// # Invariants
    ///
    /// `buf[..len]` is the text and `buf[len]` is NUL, unless `buf` is empty.
    InBuf { buf: &'a mut [u8], len: usize },
    /// Memory that grows with the text, which has at most `max_len` bytes.
    Grown { bytes: KVVec<u8>, max_len: usize },
}

impl<'a> StatusBuf<'a> {
    /// Wraps the buffer.
    pub(super) fn new(buf: &'a mut [u8], devices: &'a Devices) -> Self {
        if let Some(first) = buf.first_mut() {
            *first = 0;
        }
        // INVARIANT: No text yet, and a NUL if there is room for one.
        Self {
            text: Text::InBuf { buf, len: 0 },
            devices,
        }
    }

    /// Creates a text for a buffer of `size` bytes, with memory of its own.
    ///
    /// Userspace chooses `size`, up to 1 GiB. So memory is only allocated for the text. If that
    /// fails, writing to the result fails.
    pub(super) fn for_size(size: usize, devices: &'a Devices) -> Self {
        let (bytes, max_len) = (KVVec::new(), size.saturating_sub(1));
        Self {
            text: Text::Grown { bytes, max_len },
            devices,
        }
    }

    /// Returns the text, without a NUL.
    pub(super) fn as_bytes(&self) -> &[u8] {
        match &self.text {
            Text::InBuf { buf, len } => buf.get(..*len).unwrap_or_default(),
            Text::Grown { bytes, .. } => bytes,
        }
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
        match &mut self.text {
            Text::InBuf { buf, len } => {
                let room = buf.len().saturating_sub(*len).saturating_sub(1);
                let count = text.len().min(room);
                let end = *len + count;

                if let (Some(to), Some(from)) =
                    (buf.get_mut(*len..end), text.as_bytes().get(..count))
                {
                    to.copy_from_slice(from);
                }
                if let Some(nul) = buf.get_mut(end) {
                    *nul = 0;
                }
                // INVARIANT: `count` bytes were added, followed by a NUL. Without room, neither was
                // written.
                *len = end;
                Ok(())
            }
            Text::Grown { bytes, max_len } => {
                let count = text.len().min(max_len.saturating_sub(bytes.len()));
                let added = text.as_bytes().get(..count).unwrap_or_default();
                bytes
                    .extend_from_slice(added, GFP_KERNEL | __GFP_NOWARN)
                    .map_err(|_| fmt::Error)
            }
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_status)]
mod tests {
    use super::*;

    use crate::bindings;

    #[test]
    fn target_name_and_version_match_c() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 64];
        let mut out = StatusBuf::new(&mut buf, &devices);

        assert!(out.write_target(c"crypt", [1, 29, 0]).is_ok());
        assert_eq!(out.as_bytes(), b"target_name=crypt,target_version=1.29.0");
        assert_eq!(buf.get(37..40), Some(&b".0\0"[..]));
    }

    /// Userspace gets the buffer of a target that writes nothing, too.
    #[test]
    fn no_text_is_an_empty_string() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 4];
        assert_eq!(StatusBuf::new(&mut buf, &devices).as_bytes(), b"");
        assert_eq!(buf[0], 0);
        assert_eq!(StatusBuf::new(&mut [], &devices).as_bytes(), b"");
    }

    #[test]
    fn long_text_is_truncated_and_terminated() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 6];
        let mut out = StatusBuf::new(&mut buf, &devices);
        assert!(out.write_str("abc").is_ok());
        assert!(out.write_str("defg").is_ok());
        assert!(out.write_str("h").is_ok());
        assert_eq!(out.as_bytes(), b"abcde");
        assert_eq!(&buf, b"abcde\0");

        let mut out = StatusBuf::new(&mut [], &devices);
        assert!(out.write_str("abc").is_ok());
        assert_eq!(out.as_bytes(), b"");
    }

    /// Userspace may ask for more memory than there is.
    #[test]
    fn memory_grows_with_the_text() {
        let devices = Devices::new();
        for (size, text) in [
            (6, &b"abcde"[..]),
            (usize::MAX, b"abcdefg"),
            (1, b""),
            (0, b""),
        ] {
            let mut out = StatusBuf::for_size(size, &devices);
            assert_eq!(out.as_bytes(), b"");
            assert!(out.write_str("abc").is_ok());
            assert!(out.write_str("defg").is_ok());
            assert_eq!(out.as_bytes(), text);
        }
    }

    /// Returns devices with one device, whose number is `name`.
    fn devices(name: &[u8]) -> Result<(Devices, DeviceIndex)> {
        let mut dev: bindings::dm_dev = pin_init::zeroed();
        for (to, from) in dev.name.iter_mut().zip(name) {
            *to = *from;
        }
        let mut devices = Devices::new();
        // SAFETY: The device is never used, and nothing closes it.
        let device = unsafe { devices.push(&dev, 0, 1) }?;
        Ok((devices, device))
    }

    #[test]
    fn only_devices_of_the_target_have_names() -> Result {
        let (devices, own) = devices(b"8:16")?;
        let (_others, other) = self::devices(b"8:32")?;

        for out in [
            StatusBuf::new(&mut [0; 4], &devices),
            StatusBuf::for_size(4, &devices),
        ] {
            assert_eq!(out.device_name(own), Some("8:16"));
            assert_eq!(out.device_name(other), None);
        }
        Ok(())
    }
}
