// SPDX-License-Identifier: GPL-2.0

//! Lock classes that live as long as their locks.
//!
//! A lock points to its name and to the key of its class. In the kernel both are static in the
//! module that creates the lock, and are freed with it. But a lock may outlive this module: safe
//! code can pass any object to another module. So the locks of this library use a copy of the name,
//! and a key of the library instead of the module's key.
//!
//! Each key of a loaded module has one copy. So all locks of one line of code have one class, and
//! lockdep keeps its dependencies. When the module is unloaded, its copies stay until no lock uses
//! them.
//!
//! Without lockdep a lock has no name and no key, and this module is empty.

use kernel::{
    prelude::*,
    sync::LockClassKey, //
};

#[cfg(CONFIG_LOCKDEP)]
pub(crate) use copies::{
    forget,
    LockClass,
    LockClasses, //
};
#[cfg(not(CONFIG_LOCKDEP))]
pub(crate) use nothing::{
    forget,
    LockClass,
    LockClasses, //
};

#[cfg(CONFIG_LOCKDEP)]
mod copies {
    use super::*;

    use kernel::{
        str::CString,
        sync::{
            atomic::{
                Acquire,
                Atomic,
                Relaxed,
                Release, //
            },
            global_lock, //
        }, //
    };

    use core::{
        mem,
        ptr::NonNull, //
    };

    use crate::bindings;

    /// The name and the keys of a class.
    #[pin_data]
    struct Copy {
        /// Dropped before `name`: dropping the key removes the class, after which lockdep does not
        /// use the name.
        #[pin]
        key: LockClassKey,
        /// As `key`. Not a subclass of `key`: for a dynamic key, lockdep removes the class with
        /// subclass 0 only, see `lockdep_unregister_key()` in `kernel/locking/lockdep.c`.
        #[pin]
        visits_key: LockClassKey,
        name: CString,
        /// The number of locks of the class, and of other users.
        users: Atomic<usize>,
    }

    /// A copy, and its original.
    struct Entry {
        /// The address of the module's key. [`None`] if the module was unloaded: the address may
        /// then belong to another module.
        original: Option<usize>,
        copy: Pin<KBox<Copy>>,
    }

    global_lock! {
        // SAFETY: `LockClasses::new()` initialises it before any other function of the library
        // runs.
        unsafe(uninit) static COPIES: Mutex<KVec<Entry>> = KVec::new();
    }

    /// Creates a copy.
    fn copy(name: &CStr) -> Result<Pin<KBox<Copy>>> {
        let name = CString::try_from(name)?;
        KBox::pin_init(
            pin_init!(Copy {
                key <- LockClassKey::new_dynamic(),
                visits_key <- LockClassKey::new_dynamic(),
                name,
                users: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// The name and the key of a class, for one or more locks.
    ///
    /// # Invariants
    ///
    /// If [`Some`], the copy is in [`COPIES`], and counts this value as a user.
    pub(crate) struct LockClass(Option<NonNull<Copy>>);

    // SAFETY: A copy does not change, except for an atomic count.
    unsafe impl Send for LockClass {}

    // SAFETY: As above.
    unsafe impl Sync for LockClass {}

    impl LockClass {
        /// Returns the class of `key`.
        ///
        /// If an allocation fails, returns a class whose locks lockdep does not validate.
        ///
        /// Context: Process context. May sleep.
        pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> Self {
            let original = key.as_ptr() as usize;
            let mut copies = COPIES.lock();
            let known = copies.iter().find(|it| it.original == Some(original));
            let copy = match known {
                Some(entry) => NonNull::from(&*entry.copy),
                None => {
                    let Ok(copy) = copy(name) else {
                        return Self(None);
                    };
                    let at = NonNull::from(&*copy);
                    let entry = Entry {
                        original: Some(original),
                        copy,
                    };
                    if copies.push(entry, GFP_KERNEL).is_err() {
                        return Self(None);
                    }
                    at
                }
            };
            // SAFETY: The copy is in `COPIES`, whose lock is held.
            unsafe { copy.as_ref() }.users.add(1, Relaxed);
            // INVARIANT: The copy has just counted this user, and is in `COPIES`.
            Self(Some(copy))
        }

        /// Returns the name.
        ///
        /// # Safety
        ///
        /// The name must not be used after `self` is dropped.
        pub(crate) unsafe fn name(&self) -> &'static CStr {
            match self.0 {
                // SAFETY: The copy lives while it has users, and by the type invariants `self` is a
                // user. The caller does not use the name for longer.
                Some(copy) => &unsafe { &*copy.as_ptr() }.name,
                None => c"kscale",
            }
        }

        /// Returns the key.
        ///
        /// # Safety
        ///
        /// The key must not be used after `self` is dropped.
        pub(crate) unsafe fn key(&self) -> Pin<&'static LockClassKey> {
            match self.0 {
                // SAFETY: As in `name()`. The copy is pinned, and `key` is structurally pinned.
                Some(copy) => unsafe { Pin::new_unchecked(&(*copy.as_ptr()).key) },
                None => not_validated(),
            }
        }

        /// Returns the key for visitors of the protected data that do not hold the lock.
        ///
        /// # Safety
        ///
        /// The key must not be used after `self` is dropped.
        pub(crate) unsafe fn visits_key(&self) -> Pin<&'static LockClassKey> {
            match self.0 {
                // SAFETY: As in `key()`.
                Some(copy) => unsafe { Pin::new_unchecked(&(*copy.as_ptr()).visits_key) },
                None => not_validated(),
            }
        }
    }

    /// Returns the key of locks that lockdep does not validate.
    fn not_validated() -> Pin<&'static LockClassKey> {
        // SAFETY: `LockClassKey` is transparent, and this key is static.
        Pin::static_ref(unsafe { &*(&raw const bindings::__lockdep_no_validate__).cast() })
    }

    impl Drop for LockClass {
        #[inline]
        fn drop(&mut self) {
            if let Some(copy) = self.0 {
                // SAFETY: The copy lives while it has users, and this is its last use by `self`.
                unsafe { copy.as_ref() }.users.fetch_sub(1, Release);
            }
        }
    }

    /// Forgets the keys of a module whose code does not run again.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn forget(module: *mut bindings::module) {
        let mut copies = COPIES.lock();
        for entry in copies.iter_mut() {
            // SAFETY: The module is not freed before this returns.
            let is_of = |address| unsafe { bindings::within_module(address, module) };
            entry.original = entry.original.filter(|address| !is_of(*address));
        }
        // Also removes copies that earlier calls kept for their users. A copy without a user and
        // without a key cannot get a user.
        copies.retain(|it| it.original.is_some() || it.copy.users.load(Acquire) != 0);
    }

    /// The owner of all classes. The library keeps it.
    pub(crate) struct LockClasses(());

    impl LockClasses {
        /// Initialises the list of copies. Called once, before the first lock is created.
        pub(crate) fn new() -> Self {
            // SAFETY: The module init of the library calls this once. No other module can use the
            // library before it returns.
            unsafe { COPIES.init() };
            Self(())
        }
    }

    impl Drop for LockClasses {
        fn drop(&mut self) {
            // No task can create or destroy locks now. The name and key of leaked locks are leaked:
            // lockdep still uses them, and kmemleak reports them.
            for entry in mem::take(&mut *COPIES.lock()) {
                if entry.copy.users.load(Acquire) != 0 {
                    mem::forget(entry.copy);
                }
            }
        }
    }
}

#[cfg(not(CONFIG_LOCKDEP))]
mod nothing {
    use super::*;

    use kernel::static_lock_class;

    use crate::bindings;

    /// The name and the key of a class; empty without lockdep.
    pub(crate) struct LockClass(());

    impl LockClass {
        /// Returns the class of `key`.
        #[inline]
        pub(crate) fn new(_: &'static CStr, _: Pin<&'static LockClassKey>) -> Self {
            Self(())
        }

        /// Returns an unused name.
        ///
        /// # Safety
        ///
        /// None; see `copies`.
        #[inline]
        pub(crate) unsafe fn name(&self) -> &'static CStr {
            c""
        }

        /// Returns an unused key of size 0.
        ///
        /// # Safety
        ///
        /// None; see `copies`.
        #[inline]
        pub(crate) unsafe fn key(&self) -> Pin<&'static LockClassKey> {
            static_lock_class!()
        }

        /// Returns a key, as [`LockClass::key()`] does.
        ///
        /// # Safety
        ///
        /// None; see `copies`.
        #[inline]
        pub(crate) unsafe fn visits_key(&self) -> Pin<&'static LockClassKey> {
            static_lock_class!()
        }
    }

    /// Does nothing without lockdep.
    pub(crate) fn forget(_: *mut bindings::module) {}

    /// The owner of all classes; empty without lockdep.
    pub(crate) struct LockClasses(());

    impl LockClasses {
        /// Does nothing without lockdep.
        pub(crate) fn new() -> Self {
            Self(())
        }
    }
}
