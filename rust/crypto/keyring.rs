// SPDX-License-Identifier: GPL-2.0

//! Keys that userspace added to the keyrings of the kernel.
//!
//! For a table line or a message that names a secret instead of containing it. [`request()`]
//! searches the keyrings of the current task, and copies the secret to a [`SecretBytes`], which is
//! wiped on drop. Userspace remains responsible for removing the copy in the keyring.
//!
//! Not supported: calling userspace to construct a missing key, other types than those of
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
    num::casts::FromSafeCast,
    prelude::*, //
};

use core::ptr::{
    self,
    NonNull, //
};

use crate::{
    bindings,
    crypto::secret::SecretBytes, //
};

/// Key types with a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyType {
    /// Userspace can read the secret.
    User,
    /// Userspace cannot read the secret.
    Logon,
    /// Userspace only reads the secret encrypted by another key.
    #[cfg(CONFIG_ENCRYPTED_KEYS)]
    Encrypted,
    /// As [`KeyType::Encrypted`], encrypted by a key that does not leave its device.
    #[cfg(CONFIG_TRUSTED_KEYS)]
    Trusted,
}

impl KeyType {
    /// Returns the type with this name, as in `keyctl add`, or [`None`] if the kernel does not
    /// support it.
    ///
    /// Context: Any context. Never sleeps.
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

    // Inlined, so that a module depends on the modules of the types only if it uses this module.
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

/// Copies the secret of a key from the keyrings of the current task.
///
/// Waits for a key under construction. Fails with
///
/// - [`ENOKEY`] if there is no such key, [`EACCES`] if this task may not search for it,
/// - [`EKEYEXPIRED`], [`EKEYREVOKED`] or [`EKEYREJECTED`] if the key is no longer valid,
/// - [`EINVAL`] if the secret is not `len` bytes long,
/// - [`ENOMEM`] if there is no memory for it.
///
/// Context: Process context. May sleep. C: `request_key()`.
#[inline]
pub fn request(key_type: KeyType, description: &CStr, len: usize) -> Result<SecretBytes> {
    key_type.raw().request(description, len)
}

/// A key type, and the function that returns the secret of such a key.
///
/// # Invariants
///
/// `key_type` is valid as long as the code that uses it. For a key of this type whose semaphore is
/// held, `secret` returns NULL, or a pointer to a secret and its length. The secret does not change
/// until the semaphore is released.
struct RawType {
    key_type: *mut bindings::key_type,
    secret: unsafe extern "C" fn(*const bindings::key, *mut c_uint) -> *const c_void,
}

impl RawType {
    /// See [`request()`].
    fn request(&self, description: &CStr, len: usize) -> Result<SecretBytes> {
        // SAFETY: `key_type` is a type by the type invariants, and `description` a C string. A NULL
        // domain tag selects the domain of the type.
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
    unsafe fn copy_secret(&self, key: &KeyRef, len: usize) -> Result<SecretBytes> {
        let locked = key.lock();
        let mut secret_len = 0;
        // SAFETY: The key is of this type by this function's contract, and its semaphore is held.
        let secret = unsafe { (self.secret)(locked.0 .0.as_ptr(), &raw mut secret_len) };

        if secret.is_null() {
            return Err(EKEYREVOKED);
        }
        if usize::from_safe_cast(secret_len) != len {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants it points to `len` bytes. They do not change until
        // `locked` is dropped at the end.
        SecretBytes::new(unsafe { core::slice::from_raw_parts(secret.cast(), len) })
    }
}

/// A reference to a key.
///
/// # Invariants
///
/// The reference is counted in `usage` of the key.
struct KeyRef(NonNull<bindings::key>);

impl KeyRef {
    /// Locks the key for reading: waits for a writer, and excludes writers.
    fn lock(&self) -> Locked<'_> {
        // SAFETY: The key is alive by the type invariants, so its semaphore is initialised.
        unsafe { bindings::down_read(&raw mut (*self.0.as_ptr()).sem) };
        // INVARIANT: `down_read()` returned.
        Locked(self)
    }
}

impl Drop for KeyRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns a reference, and it is given up here.
        unsafe { bindings::key_put(self.0.as_ptr()) };
    }
}

/// A key that is locked for reading.
///
/// # Invariants
///
/// This task holds the semaphore of the key for reading.
struct Locked<'a>(&'a KeyRef);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: The semaphore is held by the type invariants.
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

    /// Returns a key that is not linked to any keyring.
    fn new_key(secret: &[u8]) -> Result<KeyRef> {
        // CAST: From 32 to 64 bits.
        let not_in_quota = bindings::KEY_ALLOC_NOT_IN_QUOTA as kernel::ffi::c_ulong;
        let (uid, gid) = (bindings::kuid_t::default(), bindings::kgid_t::default());

        // SAFETY: The type and the description are static. The credentials are those of the current
        // task, which keeps them during this call.
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
    fn secret_of_the_expected_length_is_copied() -> Result {
        let key = new_key(b"secret")?;
        // SAFETY: The key is of this type.
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

        // SAFETY: `key` is a reference to the key.
        unsafe { bindings::key_revoke(key.0.as_ptr()) };
        // SAFETY: The key is of this type.
        let copy = unsafe { user().copy_secret(&key, 6) };
        assert_eq!(copy.err(), Some(EKEYREVOKED));
        Ok(())
    }

    #[test]
    fn missing_key_is_not_found() {
        assert_eq!(user().request(c"kscale_no_such_key", 1).err(), Some(ENOKEY));
    }

    #[test]
    fn key_type_names_are_parsed() {
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
