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
//! Bios take no lock. They read the cryptor through an SRCU pointer, at the cost of two increments
//! of a per-CPU counter. A message first unpublishes the cryptor, waits until no bio uses it, and
//! then changes the key. So a bio never sees a partly changed key, even if it runs concurrently
//! with a message. A bio fails if there is no key.

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

use kscale::{
    block::{
        bio::BlkError,
        dm, //
    },
    crypto::secret::SecretBytes,
    sync::srcu::{
        self,
        Domain,
        Fast,
        Item,
        Pointer, //
    }, //
};

use crate::{
    format::Cryptor,
    table::{
        KeyArg,
        KeyLayout,
        KeyText, //
    }, //
};

/// The cryptor of a target and the state of its key.
#[pin_data]
pub(crate) struct Keys {
    /// [`None`] while there is no key.
    #[pin]
    cryptor: Pointer<Option<Cryptor>, Fast>,
    #[pin]
    state: Mutex<State>,
    layout: KeyLayout,
}

struct State {
    is_suspended: bool,
    text: KeyText,
    /// The cryptor while there is no key, otherwise [`None`]. `Keys::cryptor` has the other value.
    spare: Item<Option<Cryptor>>,
    /// Random key that replaces a wiped key. Allocated in advance, so that wiping does not fail
    /// halfway for lack of memory.
    scrap: SecretBytes,
}

impl Keys {
    /// Initialises the state of a target that is not resumed yet.
    pub(crate) fn new(
        cryptor: Cryptor,
        text: KeyText,
        layout: KeyLayout,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            cryptor <- {
                let domain: Domain<Fast> = srcu::new_domain!("rcrypt")?;
                let item = Item::new(Some(cryptor), GFP_KERNEL)?;
                srcu::new_pointer!(domain, item)
            },
            state <- {
                let spare = Item::new(None, GFP_KERNEL)?;
                // CAST: From 32 to 64 bits.
                let scrap = SecretBytes::random(layout.size_bytes as usize)?;
                new_mutex!(State {
                    is_suspended: false,
                    text,
                    spare,
                    scrap,
                })
            },
            layout,
        }? Error)
    }

    /// Calls `func` with the cryptor. The key does not change during the call.
    ///
    /// Returns [`BlkError::IOERR`] if there is no key.
    #[inline]
    pub(crate) fn with<E: From<BlkError>>(
        &self,
        func: impl FnOnce(&Cryptor) -> Result<(), E>,
    ) -> Result<(), E> {
        match &*self.cryptor.read() {
            Some(cryptor) => func(cryptor),
            None => Err(BlkError::IOERR.into()),
        }
    }

    /// Returns the length of the key and of its parts.
    pub(crate) fn layout(&self) -> KeyLayout {
        self.layout
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
    pub(crate) fn message(&self, mut args: dm::Args<'_>) -> Result {
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
                (Some(key), 3) if is(command, "set") => return self.set_key(key.as_bytes()),
                (None, 2) if is(command, "wipe") => return self.wipe_key(),
                _ => {}
            }
        }
        pr_warn!("unrecognised message received.\n");
        Err(EINVAL)
    }

    /// Replaces the key.
    fn set_key(&self, arg: &[u8]) -> Result {
        let arg = KeyArg::parse(arg)
            .filter(|arg| arg.size_bytes() == self.layout.size_bytes)
            .ok_or(EINVAL)?;
        // Without the lock, because fetching may wait for userspace.
        let fetched = arg.fetch();

        let mut state = self.state.lock();
        state.check_suspended()?;
        match fetched {
            Ok((key, text)) => {
                self.withdraw(&mut state);
                state.set_key(&key, text)?;
                self.cryptor.lock().swap(&mut state.spare);
                Ok(())
            }
            Err(error) => {
                if error == EINVAL && arg.is_in_digits() && self.layout.size_bytes != 0 {
                    self.withdraw(&mut state);
                    state.forget_key()?;
                }
                Err(error)
            }
        }
    }

    /// Wipes the key and its text.
    fn wipe_key(&self) -> Result {
        let mut state = self.state.lock();

        state.check_suspended()?;
        self.withdraw(&mut state);
        state.forget_key()
    }

    /// Unpublishes the cryptor if it is published, and waits until no bio uses it.
    fn withdraw(&self, state: &mut State) {
        if state.has_key() {
            self.cryptor.lock().swap(&mut state.spare);
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
        // Either `spare` or `Keys::cryptor` is [`None`].
        self.spare.is_none()
    }

    /// Sets the key of the spare cryptor. After an error the key is wiped.
    fn set_key(&mut self, key: &SecretBytes, text: KeyText) -> Result {
        let cryptor = self.spare.as_mut().ok_or(EIO)?;

        match cryptor.set_key(key) {
            Ok(()) => {
                self.text = text;
                Ok(())
            }
            Err(error) => self.forget_key().and(Err(error)),
        }
    }

    /// Overwrites the key in the cryptor and the key text.
    ///
    /// Some ciphers allocate memory to set a key. If that fails, a cipher may keep a part of the
    /// old key until the next message, or until it is freed. No bio uses that key.
    fn forget_key(&mut self) -> Result {
        self.text = KeyText::Wiped;
        self.spare.as_mut().ok_or(EIO)?.set_key(&self.scrap)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_keys_state)]
mod tests {
    use super::*;
    use crate::{
        cipher::CipherSpec,
        options::Options, //
    };
    use kernel::str::CString;
    use kscale::block::bio::{
        BlkResult,
        Buffer, //
    };

    const FIRST: &CStr = c"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const SECOND: &[u8] = b"00000000000000000000000000000000ffffffffffffffffffffffffffffffff";

    /// Returns the state of a device with the key [`FIRST`].
    fn keys() -> Result<Pin<KBox<Keys>>> {
        let spec = CipherSpec::parse(c"aes-xts-plain64", false).map_err(|e| e.error())?;
        let (key, text) = KeyArg::parse(FIRST.to_bytes()).ok_or(EINVAL)?.fetch()?;
        let cryptor =
            Cryptor::new(&spec, 32, || Ok(key), Options::DEFAULT).map_err(|e| e.error())?;
        let layout = cryptor.key_layout();

        KBox::try_pin_init(Keys::new(cryptor, text, layout), GFP_KERNEL)
    }

    /// Returns the key in the table line, or [`None`] for a wiped key.
    fn shown(keys: &Keys) -> Result<Option<CString>> {
        keys.with_text(|text| match text {
            KeyText::Digits(key) => Ok(Some(CString::try_from_fmt(fmt!("{key:x}"))?)),
            KeyText::Name(name) => Ok(Some(CString::try_from_fmt(fmt!("{}", &**name))?)),
            KeyText::Wiped => Ok(None),
        })
    }

    /// Returns the result of a bio.
    fn bio(keys: &Keys) -> BlkResult {
        keys.with(|_| Ok(()))
    }

    /// Returns the ciphertext of a sector of zeros.
    fn ciphertext(cryptor: &Cryptor) -> Result<KVec<u8>> {
        const LEN: u32 = 512;
        let plaintext = Buffer::new(&[], 0)?;
        let mut ciphertext = Buffer::new(&[], 0)?;

        plaintext
            .with_segments(LEN, |src| {
                ciphertext.with_segments_mut(LEN, |dst| cryptor.encrypt(0, src, dst))
            })
            .map_err(|_| EIO)?;
        ciphertext.contents(0, LEN as usize)
    }

    /// Returns the ciphertext of a sector of zeros from the spare cryptor, which bios do not use.
    fn ciphertext_of_spare(keys: &Keys) -> Result<KVec<u8>> {
        ciphertext(keys.state.lock().spare.as_ref().ok_or(EINVAL)?)
    }

    #[test]
    fn a_key_that_is_gone_is_not_in_the_ciphers_either() -> Result {
        let keys = keys()?;
        let mut digits = *FIRST.to_bytes().first_chunk::<64>().ok_or(EINVAL)?;
        if let Some(last) = digits.last_mut() {
            *last = b'g';
        }
        let mut with_key = KVec::new();
        let had = keys.with(|cryptor| {
            with_key = ciphertext(cryptor).map_err(|_| BlkError::IOERR)?;
            Ok::<_, BlkError>(())
        });
        assert!(had == Ok(()));

        keys.suspended();
        keys.wipe_key()?;
        assert!(*ciphertext_of_spare(&keys)? != *with_key);

        keys.set_key(FIRST.to_bytes())?;
        assert_eq!(keys.set_key(&digits), Err(EINVAL));
        assert!(*ciphertext_of_spare(&keys)? != *with_key);
        Ok(())
    }

    #[test]
    fn a_key_is_changed_only_while_the_device_is_suspended() -> Result {
        let keys = keys()?;

        for _ in 0..2 {
            assert_eq!(keys.set_key(SECOND), Err(EINVAL));
            assert_eq!(keys.wipe_key(), Err(EINVAL));
            assert!(bio(&keys) == Ok(()));
            assert!(shown(&keys)?.is_some_and(|key| *key == *FIRST));

            keys.suspended();
            assert_eq!(keys.set_key(SECOND), Ok(()));
            assert!(bio(&keys) == Ok(()));
            assert!(shown(&keys)?.is_some_and(|key| key.to_bytes() == SECOND));
            assert_eq!(keys.set_key(FIRST.to_bytes()), Ok(()));
            assert_eq!(keys.may_resume(), Ok(()));
            keys.resumed();
        }
        Ok(())
    }

    #[test]
    fn without_a_key_bios_fail_and_the_device_stays_suspended() -> Result {
        let keys = keys()?;

        keys.suspended();
        for _ in 0..2 {
            assert_eq!(keys.wipe_key(), Ok(()));
            assert!(bio(&keys) == Err(BlkError::IOERR));
            assert_eq!(keys.may_resume(), Err(EAGAIN));
            assert!(shown(&keys)?.is_none());
        }
        // As if a message ran between the two hooks.
        keys.resumed();
        assert!(bio(&keys) == Err(BlkError::IOERR));
        assert_eq!(keys.set_key(SECOND), Err(EINVAL));

        keys.suspended();
        assert_eq!(keys.set_key(SECOND), Ok(()));
        assert_eq!(keys.may_resume(), Ok(()));
        assert!(bio(&keys) == Ok(()));
        Ok(())
    }

    #[test]
    fn a_key_that_cannot_be_had_leaves_the_old_one() -> Result {
        let keys = keys()?;

        keys.suspended();
        for arg in [
            &b""[..],
            b"-",
            b"00",
            b":32",
            b":31:user:rcrypt_none",
            b":32:user:",
        ] {
            assert_eq!(keys.set_key(arg), Err(EINVAL));
            assert!(bio(&keys) == Ok(()));
            assert!(shown(&keys)?.is_some_and(|key| *key == *FIRST));
        }
        if cfg!(CONFIG_KEYS) {
            assert_eq!(keys.set_key(b":32:user:rcrypt_none"), Err(ENOKEY));
            assert!(shown(&keys)?.is_some_and(|key| *key == *FIRST));
        }
        assert_eq!(keys.may_resume(), Ok(()));
        Ok(())
    }

    #[test]
    fn digits_that_are_none_leave_no_key() -> Result {
        let keys = keys()?;
        let mut digits = *FIRST.to_bytes().first_chunk::<64>().ok_or(EINVAL)?;

        if let Some(last) = digits.last_mut() {
            *last = b'g';
        }
        keys.suspended();
        assert_eq!(keys.set_key(&digits), Err(EINVAL));
        assert!(shown(&keys)?.is_none());
        assert_eq!(keys.may_resume(), Err(EAGAIN));
        assert_eq!(keys.set_key(FIRST.to_bytes()), Ok(()));
        assert_eq!(keys.may_resume(), Ok(()));
        Ok(())
    }
}
