// SPDX-License-Identifier: GPL-2.0

//! Keys that userspace left in the kernel's keyrings.
//!
//! Use it for a secret that a table line or a message names instead of holding it. [`request()`]
//! searches the keyrings of the task that runs, and copies the secret into a [`Key`], which is wiped
//! when it is dropped; the keyring's own copy is userspace's to remove.
//!
//! Not supported: asking userspace for a key that is not there, other types than those of
//! [`KeyType`], changing keys.
//!
//! C headers: [`include/linux/key.h`](srctree/include/linux/key.h),
//! [`include/keys`](srctree/include/keys)

use kernel::{
    error::from_err_ptr,
    ffi::{
        c_uint,
        c_void, //
    },
    prelude::*, //
};

use core::ptr::{
    self,
    NonNull, //
};

use crate::{
    bindings,
    crypto::secret::Key, //
};

/// Types of keys that hold a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyType {
    /// Userspace may read the secret back.
    User,
    /// Userspace may not.
    Logon,
    /// Userspace only sees it encrypted by another key.
    #[cfg(CONFIG_ENCRYPTED_KEYS)]
    Encrypted,
    /// As [`KeyType::Encrypted`], by a key that does not leave its device.
    #[cfg(CONFIG_TRUSTED_KEYS)]
    Trusted,
}

impl KeyType {
    /// Returns the type of that name, as in `keyctl add`, if the kernel was built with it.
    ///
    /// Context: Any. Never sleeps.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"user" => Some(Self::User),
            b"logon" => Some(Self::Logon),
            #[cfg(CONFIG_ENCRYPTED_KEYS)]
            b"encrypted" => Some(Self::Encrypted),
            #[cfg(CONFIG_TRUSTED_KEYS)]
            b"trusted" => Some(Self::Trusted),
            _ => None,
        }
    }

    // Inlined, so that only modules that use this module depend on those of the types.
    #[inline]
    fn raw(self) -> RawType {
        match self {
            Self::User => RawType {
                key_type: &raw mut bindings::key_type_user,
                secret: bindings::user_key_data,
            },
            Self::Logon => RawType {
                key_type: &raw mut bindings::key_type_logon,
                secret: bindings::user_key_data,
            },
            #[cfg(CONFIG_ENCRYPTED_KEYS)]
            Self::Encrypted => RawType {
                key_type: &raw mut bindings::key_type_encrypted,
                secret: bindings::encrypted_key_data,
            },
            #[cfg(CONFIG_TRUSTED_KEYS)]
            Self::Trusted => RawType {
                key_type: &raw mut bindings::key_type_trusted,
                secret: bindings::trusted_key_data,
            },
        }
    }
}

/// Copies the secret of a key that the running task finds in its keyrings.
///
/// Waits for a key that is being made. Fails with
///
/// - [`ENOKEY`] if there is no such key, [`EACCES`] if this task may not search for it,
/// - [`EKEYEXPIRED`], [`EKEYREVOKED`] or [`EKEYREJECTED`] if it is of no use any more,
/// - [`EINVAL`] if the secret is not `len` bytes long,
/// - [`ENOMEM`] if there is no memory for it.
///
/// Context: Task. Sleeps. C: `request_key()`.
#[inline]
pub fn request(key_type: KeyType, description: &CStr, len: usize) -> Result<Key> {
    key_type.raw().request(description, len)
}

/// A type of keys, and what finds the secret of such a key.
///
/// # Invariants
///
/// `key_type` is valid as long as the code that uses it. For a key of that type, whose semaphore is
/// held, `secret` returns NULL or a pointer to as many bytes as it says, which stay as they are
/// until the semaphore is released.
struct RawType {
    key_type: *mut bindings::key_type,
    secret: unsafe extern "C" fn(*const bindings::key, *mut c_uint) -> *const c_void,
}

impl RawType {
    /// See [`request()`].
    fn request(&self, description: &CStr, len: usize) -> Result<Key> {
        // SAFETY: `key_type` is a type by the type invariants, and `description` a C string. No
        // domain means that of the type.
        let key = from_err_ptr(unsafe {
            bindings::request_key_tag(
                self.key_type,
                description.as_char_ptr(),
                ptr::null_mut(),
                ptr::null(),
            )
        })?;
        // INVARIANT: `request_key_tag()` returns a reference.
        let key = KeyRef(NonNull::new(key).ok_or(ENOKEY)?);

        // SAFETY: `request_key_tag()` returns keys of `key_type`.
        unsafe { self.copy_secret(&key, len) }
    }

    /// Copies the secret of a key.
    ///
    /// # Safety
    ///
    /// `key` must be of this type.
    unsafe fn copy_secret(&self, key: &KeyRef, len: usize) -> Result<Key> {
        let locked = key.lock();
        let mut secret_len = 0;
        // SAFETY: The key is of this type by this function's contract, and its semaphore is held.
        let secret = unsafe { (self.secret)(locked.0 .0.as_ptr(), &raw mut secret_len) };

        if secret.is_null() {
            return Err(EKEYREVOKED);
        }
        // CAST: From 32 to 64 bits.
        if secret_len as usize != len {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants it points to `len` bytes, which stay as they are: `locked`
        // is dropped at the end.
        Key::new(unsafe { core::slice::from_raw_parts(secret.cast(), len) })
    }
}

/// A reference to a key.
///
/// # Invariants
///
/// It counts in `usage` of the key.
struct KeyRef(NonNull<bindings::key>);

impl KeyRef {
    /// Waits until nobody changes the key, and keeps everybody from it.
    fn lock(&self) -> Locked<'_> {
        // SAFETY: The key is alive by the type invariants, so its semaphore is initialised.
        unsafe { bindings::down_read(&raw mut (*self.0.as_ptr()).sem) };
        // INVARIANT: `down_read()` returned.
        Locked(self)
    }
}

impl Drop for KeyRef {
    fn drop(&mut self) {
        // SAFETY: The reference is given up, and by the type invariants there is one.
        unsafe { bindings::key_put(self.0.as_ptr()) };
    }
}

/// A key that nobody changes.
///
/// # Invariants
///
/// Its semaphore is held for reading by this task.
struct Locked<'a>(&'a KeyRef);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: It is held by the type invariants.
        unsafe { bindings::up_read(&raw mut (*self.0 .0.as_ptr()).sem) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_keyring)]
mod tests {
    use super::*;

    // `KeyType::raw()` would make the library depend on the modules of all types.
    fn user() -> RawType {
        RawType {
            key_type: &raw mut bindings::key_type_user,
            secret: bindings::user_key_data,
        }
    }

    /// Returns a key that is in no keyring.
    fn new_key(secret: &[u8]) -> Result<KeyRef> {
        // CAST: From 32 to 64 bits.
        let not_in_quota = bindings::KEY_ALLOC_NOT_IN_QUOTA as kernel::ffi::c_ulong;
        let (uid, gid) = (bindings::kuid_t::default(), bindings::kgid_t::default());

        // SAFETY: The type and the description are static, and the credentials are those of this
        // task, which keeps them as long as this runs.
        let key = from_err_ptr(unsafe {
            bindings::key_alloc(
                user().key_type,
                c"kscale_keyring".as_char_ptr(),
                uid,
                gid,
                (*bindings::get_current()).cred,
                0,
                not_in_quota,
                ptr::null_mut(),
            )
        })?;
        let key = KeyRef(NonNull::new(key).ok_or(ENOKEY)?);
        // SAFETY: The key is new, and `secret` is valid for reads.
        kernel::error::to_result(unsafe {
            bindings::key_instantiate_and_link(
                key.0.as_ptr(),
                secret.as_ptr().cast(),
                secret.len(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        })?;
        Ok(key)
    }

    #[test]
    fn the_secret_is_copied_if_it_is_as_long_as_expected() -> Result {
        let key = new_key(b"secret")?;
        // SAFETY: It is of this type.
        let copy = |len| unsafe { user().copy_secret(&key, len) };

        assert_eq!(copy(6)?.as_bytes(), b"secret");
        for len in [0, 5, 7, usize::MAX] {
            assert_eq!(copy(len).err(), Some(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn a_revoked_key_has_no_secret() -> Result {
        let key = new_key(b"secret")?;

        // SAFETY: There is a reference to it.
        unsafe { bindings::key_revoke(key.0.as_ptr()) };
        // SAFETY: It is of this type.
        let copy = unsafe { user().copy_secret(&key, 6) };
        assert_eq!(copy.err(), Some(EKEYREVOKED));
        Ok(())
    }

    #[test]
    fn a_key_that_is_not_there_is_not_found() {
        assert_eq!(user().request(c"kscale_no_such_key", 1).err(), Some(ENOKEY));
    }

    #[test]
    fn names_of_types() {
        assert_eq!(KeyType::from_name(b"user"), Some(KeyType::User));
        assert_eq!(KeyType::from_name(b"logon"), Some(KeyType::Logon));
        assert_eq!(
            KeyType::from_name(b"encrypted").is_some(),
            cfg!(CONFIG_ENCRYPTED_KEYS)
        );
        assert_eq!(
            KeyType::from_name(b"trusted").is_some(),
            cfg!(CONFIG_TRUSTED_KEYS)
        );
        for name in [&b""[..], b"USER", b"user:", b"keyring", b"asymmetric"] {
            assert_eq!(KeyType::from_name(name), None);
        }
    }
}
