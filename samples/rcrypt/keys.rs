// SPDX-License-Identifier: GPL-2.0

//! The key of a target, and the messages, suspend and resume hooks that change it.
//!
//! ```text
//! key set <key>|:<key size>:<key type>:<description>
//! key wipe
//! ```
//!
//! As in dm-crypt, a key changes only while the device is suspended, and the device resumes only
//! with a key. In contrast to dm-crypt, a mutex serialises messages, suspend, resume and status.
//!
//! Bios take no lock. They read the format through an SRCU pointer, at the cost of two increments
//! of a per-CPU counter. A message first unpublishes the format, waits until no bio uses it, and
//! then changes the key. So a bio never sees a partly changed key, even if it runs concurrently
//! with a message. A bio fails if there is no key.

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

use kscale::{
    block::dm,
    crypto::secret::SecretBytes,
    sync::srcu::{
        self,
        Domain,
        Fast,
        Item,
        Pointer,
        PointerGuard, //
    }, //
};

use crate::{
    format::Format,
    table::{
        KeyArg,
        KeyLayout,
        KeyText, //
    }, //
};

/// The format of a target and the state of its key.
#[pin_data]
pub(crate) struct Keys {
    /// [`None`] while there is no key.
    #[pin]
    format: Pointer<Option<Format>, Fast>,
    #[pin]
    state: Mutex<State>,
}

struct State {
    is_suspended: bool,
    text: KeyText,
    /// The format while there is no key, otherwise [`None`]. `Keys::format` has the other value.
    offline: Item<Option<Format>>,
    /// Random key that replaces a wiped key. Allocated in advance, so that wiping does not fail
    /// halfway for lack of memory.
    dummy_key: SecretBytes,
}

impl Keys {
    /// Initialises the state of a target that is not resumed yet.
    pub(crate) fn new(format: Format, text: KeyText, key_len: usize) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            format <- {
                let domain: Domain<Fast> = srcu::new_domain!("rcrypt")?;
                let item = Item::new(Some(format), GFP_KERNEL)?;
                srcu::new_pointer!(domain, item)
            },
            state <- {
                let offline = Item::new(None, GFP_KERNEL)?;
                let dummy_key = SecretBytes::random(key_len)?;
                new_mutex!(State {
                    is_suspended: false,
                    text,
                    offline,
                    dummy_key,
                })
            },
        }? Error)
    }

    /// Returns the format, or [`None`] if there is no key. The key does not change while the guard
    /// lives.
    #[inline]
    pub(crate) fn read(&self) -> PointerGuard<'_, Option<Format>, Fast> {
        self.format.read()
    }

    /// Calls `func` with the key text for the table line.
    pub(crate) fn with_text<R>(&self, func: impl FnOnce(&KeyText) -> R) -> R {
        func(&self.state.lock().text)
    }

    /// Marks the device as suspended, so that messages may change the key.
    pub(crate) fn suspended(&self) {
        self.state.lock().is_suspended = true;
    }

    /// Returns [`EAGAIN`] if there is no key, so that the device is not resumed.
    pub(crate) fn may_resume(&self) -> Result {
        if self.state.lock().has_key() {
            Ok(())
        } else {
            pr_err!("aborting resume - crypt key is not set.\n");
            Err(EAGAIN)
        }
    }

    /// Marks the device as resumed. If a message wiped the key since [`Keys::may_resume()`], all
    /// bios fail.
    pub(crate) fn resumed(&self) {
        self.state.lock().is_suspended = false;
    }

    /// Runs a message.
    ///
    /// Returns [`EINVAL`] for an unknown message, and if the device is not suspended. `key set`
    /// returns [`EINVAL`] if the key does not have the length of the key in the table line, and the
    /// errors of [`KeyArg::fetch()`]. The old key is then kept, with two exceptions, as in
    /// dm-crypt: invalid hex digits and a key that the ciphers reject wipe the old key. Both
    /// commands return [`ENOMEM`] if a cipher fails to allocate memory. There is no key then, and
    /// the caller may repeat either command.
    pub(crate) fn message(&self, mut args: dm::Args<'_>, layout: &KeyLayout) -> Result {
        let is = |arg: Option<&CStr>, word: &str| {
            arg.is_some_and(|arg| arg.to_bytes().eq_ignore_ascii_case(word.as_bytes()))
        };
        let count = args.len();

        if count >= 2 && is(args.next(), "key") {
            let command = args.next();
            // The argument is overwritten when this function returns, even if it is not a key.
            let key = args.secret(c"").ok();
            self.state.lock().check_suspended()?;

            match (key, count) {
                (Some(key), 3) if is(command, "set") => {
                    return self.set_key(key.as_bytes(), layout)
                }
                (None, 2) if is(command, "wipe") => return self.wipe_key(layout),
                _ => {}
            }
        }
        pr_warn!("unrecognised message received.\n");
        Err(EINVAL)
    }

    /// Replaces the key.
    fn set_key(&self, arg: &[u8], layout: &KeyLayout) -> Result {
        let arg = KeyArg::parse(arg)
            .filter(|arg| arg.size_bytes() == layout.size_bytes)
            .ok_or(EINVAL)?;
        // Without the lock, because fetching may wait for userspace.
        let fetched = arg.fetch();

        let mut state = self.state.lock();
        state.check_suspended()?;
        match fetched {
            Ok((key, text)) => {
                self.unpublish(&mut state);
                state.set_key(&key, text, layout)?;
                self.format.lock().swap(&mut state.offline);
                Ok(())
            }
            Err(error) => {
                if error == EINVAL && arg.is_in_digits() && layout.size_bytes != 0 {
                    self.unpublish(&mut state);
                    state.forget_key(layout)?;
                }
                Err(error)
            }
        }
    }

    /// Wipes the key and its text.
    fn wipe_key(&self, layout: &KeyLayout) -> Result {
        let mut state = self.state.lock();

        state.check_suspended()?;
        self.unpublish(&mut state);
        state.forget_key(layout)
    }

    /// Unpublishes the format if it is published, and waits until no bio uses it.
    fn unpublish(&self, state: &mut State) {
        if state.has_key() {
            self.format.lock().swap(&mut state.offline);
        }
    }
}

impl State {
    /// Returns [`EINVAL`] unless the device is suspended.
    fn check_suspended(&self) -> Result {
        if self.is_suspended {
            Ok(())
        } else {
            pr_warn!("not suspended during key manipulation.\n");
            Err(EINVAL)
        }
    }

    fn has_key(&self) -> bool {
        // Either `offline` or `Keys::format` is [`None`].
        self.offline.is_none()
    }

    /// Sets the key of the unpublished format. After an error the key is wiped.
    fn set_key(&mut self, key: &SecretBytes, text: KeyText, layout: &KeyLayout) -> Result {
        let mut formats = self.offline.iter_mut();

        match formats.try_for_each(|format| format.set_key(key, layout)) {
            Ok(()) => {
                self.text = text;
                Ok(())
            }
            Err(error) => self.forget_key(layout).and(Err(error)),
        }
    }

    /// Overwrites the key in the unpublished format and the key text.
    ///
    /// Some ciphers allocate memory to set a key. If that fails, a cipher may keep a part of the
    /// old key until the next message, or until it is freed. No bio uses that key.
    fn forget_key(&mut self, layout: &KeyLayout) -> Result {
        let mut formats = self.offline.iter_mut();

        self.text = KeyText::Wiped;
        formats.try_for_each(|format| format.set_key(&self.dummy_key, layout))
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_keys_state)]
mod tests {
    use super::*;
    use crate::{
        cipher_spec::CipherSpec,
        options::Options,
        table::{
            testing::config,
            Config, //
        }, //
    };
    use kernel::str::CString;
    use kscale::block::bio::Buffer;

    const FIRST: &CStr = c"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const SECOND: &[u8] = b"00000000000000000000000000000000ffffffffffffffffffffffffffffffff";

    /// A device.
    struct Device {
        keys: Pin<KBox<Keys>>,
        config: Config,
    }

    impl Device {
        /// Returns a device with the key [`FIRST`].
        fn new() -> Result<Self> {
            let spec = CipherSpec::parse(c"aes-xts-plain64", false).map_err(|e| e.error())?;
            let (key, text) = KeyArg::parse(FIRST.to_bytes()).ok_or(EINVAL)?.fetch()?;
            let options = Options::DEFAULT;
            let (format, layout) =
                Format::new(&spec, 32, || Ok(key), &options).map_err(|e| e.error())?;

            Ok(Self {
                keys: KBox::try_pin_init(Keys::new(format, text, 32), GFP_KERNEL)?,
                config: config(options, layout)?,
            })
        }

        fn set_key(&self, key: &[u8]) -> Result {
            self.keys.set_key(key, &self.config.key_layout)
        }

        fn wipe_key(&self) -> Result {
            self.keys.wipe_key(&self.config.key_layout)
        }

        /// Returns the ciphertext of a sector of zeros.
        fn ciphertext(&self, format: &Format) -> Result<KVec<u8>> {
            const LEN: u32 = 512;
            let plaintext = Buffer::new(&[], 0)?;
            let mut ciphertext = Buffer::new(&[], 0)?;

            plaintext
                .with_segments(LEN, |src| {
                    ciphertext.with_segments_mut(LEN, |dst| {
                        format.encrypt(&self.config, 0, src, dst, &mut [])
                    })
                })
                .map_err(|_| EIO)?;
            ciphertext.contents(0, LEN as usize)
        }

        /// Returns the ciphertext of a sector of zeros from the format that bios do not use.
        fn offline_ciphertext(&self) -> Result<KVec<u8>> {
            self.ciphertext(self.keys.state.lock().offline.as_ref().ok_or(EINVAL)?)
        }
    }

    /// Returns the key in the table line, or [`None`] for a wiped key.
    fn shown(keys: &Keys) -> Result<Option<CString>> {
        keys.with_text(|text| match text {
            KeyText::Digits(key) => Ok(Some(CString::try_from_fmt(fmt!("{key:x}"))?)),
            KeyText::Name(name) => Ok(Some(CString::try_from_fmt(fmt!("{}", &**name))?)),
            KeyText::Wiped => Ok(None),
        })
    }

    /// Returns whether bios have a key.
    fn has_key(keys: &Keys) -> bool {
        keys.read().is_some()
    }

    #[test]
    fn wiped_key_is_not_in_ciphers() -> Result {
        let device = Device::new()?;
        let mut digits = *FIRST.to_bytes().first_chunk::<64>().ok_or(EINVAL)?;
        if let Some(last) = digits.last_mut() {
            *last = b'g';
        }
        let with_key = device.ciphertext(device.keys.read().as_ref().ok_or(EINVAL)?)?;

        device.keys.suspended();
        device.wipe_key()?;
        assert!(*device.offline_ciphertext()? != *with_key);

        device.set_key(FIRST.to_bytes())?;
        assert_eq!(device.set_key(&digits), Err(EINVAL));
        assert!(*device.offline_ciphertext()? != *with_key);
        Ok(())
    }

    #[test]
    fn wiped_key_is_not_known() -> Result {
        let device = Device::new()?;

        device.keys.suspended();
        device.set_key(&[b'0'; 64])?;
        let with_zeros = device.ciphertext(device.keys.read().as_ref().ok_or(EINVAL)?)?;
        device.wipe_key()?;
        assert!(*device.offline_ciphertext()? != *with_zeros);
        Ok(())
    }

    #[test]
    fn key_changes_only_while_suspended() -> Result {
        let device = Device::new()?;
        let keys = &device.keys;

        for _ in 0..2 {
            assert_eq!(device.set_key(SECOND), Err(EINVAL));
            assert_eq!(device.wipe_key(), Err(EINVAL));
            assert!(has_key(keys));
            assert!(shown(keys)?.is_some_and(|key| *key == *FIRST));

            keys.suspended();
            assert_eq!(device.set_key(SECOND), Ok(()));
            assert!(has_key(keys));
            assert!(shown(keys)?.is_some_and(|key| key.to_bytes() == SECOND));
            assert_eq!(device.set_key(FIRST.to_bytes()), Ok(()));
            assert_eq!(keys.may_resume(), Ok(()));
            keys.resumed();
        }
        Ok(())
    }

    #[test]
    fn bios_and_resume_fail_without_key() -> Result {
        let device = Device::new()?;
        let keys = &device.keys;

        keys.suspended();
        for _ in 0..2 {
            assert_eq!(device.wipe_key(), Ok(()));
            assert!(!has_key(keys));
            assert_eq!(keys.may_resume(), Err(EAGAIN));
            assert!(shown(keys)?.is_none());
        }
        // As if a message ran between the two hooks.
        keys.resumed();
        assert!(!has_key(keys));
        assert_eq!(device.set_key(SECOND), Err(EINVAL));

        keys.suspended();
        assert_eq!(device.set_key(SECOND), Ok(()));
        assert_eq!(keys.may_resume(), Ok(()));
        assert!(has_key(keys));
        Ok(())
    }

    #[test]
    fn failed_fetch_keeps_old_key() -> Result {
        let device = Device::new()?;
        let keys = &device.keys;

        keys.suspended();
        for arg in [
            &b""[..],
            b"-",
            b"00",
            b":32",
            b":31:user:rcrypt_none",
            b":32:user:",
        ] {
            assert_eq!(device.set_key(arg), Err(EINVAL));
            assert!(has_key(keys));
            assert!(shown(keys)?.is_some_and(|key| *key == *FIRST));
        }
        if cfg!(CONFIG_KEYS) {
            assert_eq!(device.set_key(b":32:user:rcrypt_none"), Err(ENOKEY));
            assert!(shown(keys)?.is_some_and(|key| *key == *FIRST));
        }
        // An argument of the right length, for a cipher without a key.
        let no_key = KeyLayout {
            size_bytes: 0,
            ..device.config.key_layout
        };
        assert_eq!(keys.set_key(b"z", &no_key), Err(EINVAL));
        assert!(has_key(keys));
        assert_eq!(keys.may_resume(), Ok(()));
        Ok(())
    }

    #[test]
    fn refused_key_leaves_no_key() -> Result {
        let device = Device::new()?;
        let keys = &device.keys;
        // No cipher accepts a key of this layout.
        let unfit = KeyLayout {
            extra_size_bytes: 33,
            ..device.config.key_layout
        };

        keys.suspended();
        assert_eq!(keys.set_key(SECOND, &unfit), Err(EINVAL));
        assert!(!has_key(keys));
        assert!(shown(keys)?.is_none());
        assert_eq!(keys.may_resume(), Err(EAGAIN));
        assert_eq!(device.set_key(SECOND), Ok(()));
        assert_eq!(keys.may_resume(), Ok(()));
        Ok(())
    }

    #[test]
    fn invalid_hex_sets_no_key() -> Result {
        let device = Device::new()?;
        let keys = &device.keys;
        let mut digits = *FIRST.to_bytes().first_chunk::<64>().ok_or(EINVAL)?;

        if let Some(last) = digits.last_mut() {
            *last = b'g';
        }
        keys.suspended();
        assert_eq!(device.set_key(&digits), Err(EINVAL));
        assert!(shown(keys)?.is_none());
        assert_eq!(keys.may_resume(), Err(EAGAIN));
        assert_eq!(device.set_key(FIRST.to_bytes()), Ok(()));
        assert_eq!(keys.may_resume(), Ok(()));

        // Of a key of any length.
        let short = KeyLayout {
            size_bytes: 1,
            ..device.config.key_layout
        };
        assert_eq!(keys.set_key(b"0g", &short), Err(EINVAL));
        assert!(shown(keys)?.is_none());
        Ok(())
    }
}
