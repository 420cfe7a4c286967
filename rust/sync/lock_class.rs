// SPDX-License-Identifier: GPL-2.0

//! Lock classes that last as long as their locks.
//!
//! A lock has pointers to its name and to the key of its class. Both are static in the module that
//! creates the lock, and go with it. A lock may outlive that module: safe code can give any object
//! to another module. So the locks of this library take a copy of the name, and a key of the
//! library's in place of the module's.
//!
//! There is one copy for each key of a module, as long as the module is there. Thus two locks that
//! one line of code creates are of one class, and lockdep remembers what it has learnt of it. When
//! the module has gone, its copies stay until no lock needs them.
//!
//! Without lockdep no lock has a name or a key, and all of this is nothing.

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
        /// Goes before `name`: lockdep forgets the class with its key, and then needs no name.
        #[pin]
        key: LockClassKey,
        /// As `key`. Not a subclass of that: of a key that is not static, lockdep forgets the class
        /// with subclass 0 only, see `lockdep_unregister_key()` in `kernel/locking/lockdep.c`.
        #[pin]
        visits_key: LockClassKey,
        name: CString,
        /// Locks of the class, and other things that need it.
        users: Atomic<usize>,
    }

    /// A copy, and what it is a copy of.
    struct Entry {
        /// The address of the module's key. [`None`] if the module has gone: another one may have
        /// something else there.
        original: Option<usize>,
        copy: Pin<KBox<Copy>>,
    }

    global_lock! {
        // SAFETY: Initialised by `LockClasses::new()`, which everything else in the library comes
        // after.
        unsafe(uninit) static COPIES: Mutex<KVec<Entry>> = KVec::new();
    }

    /// Returns a new copy.
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

    /// Name and key of a class, for one lock or more.
    ///
    /// # Invariants
    ///
    /// If it is [`Some`], the copy is in [`COPIES`], and this is one of its users.
    pub(crate) struct LockClass(Option<NonNull<Copy>>);

    // SAFETY: A copy does not change, but for an atomic count.
    unsafe impl Send for LockClass {}

    // SAFETY: As above.
    unsafe impl Sync for LockClass {}

    impl LockClass {
        /// Returns the class that `key` stands for.
        ///
        /// If memory is short, that is a class whose locks lockdep does not validate.
        ///
        /// Context: process. May sleep.
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
            // SAFETY: It is in `COPIES`, whose lock is held.
            unsafe { copy.as_ref() }.users.add(1, Relaxed);
            // INVARIANT: It was just counted, and is in `COPIES`.
            Self(Some(copy))
        }

        /// Returns the name.
        ///
        /// # Safety
        ///
        /// It must not be used when `self` is dropped.
        pub(crate) unsafe fn name(&self) -> &'static CStr {
            match self.0 {
                // SAFETY: The copy stays as long as it has users, and `self` is one by the type
                // invariants. The caller does not use it for longer.
                Some(copy) => &unsafe { &*copy.as_ptr() }.name,
                None => c"kscale",
            }
        }

        /// Returns the key.
        ///
        /// # Safety
        ///
        /// It must not be used when `self` is dropped.
        pub(crate) unsafe fn key(&self) -> Pin<&'static LockClassKey> {
            match self.0 {
                // SAFETY: As in `name()`. The copy is pinned, and `key` structurally.
                Some(copy) => unsafe { Pin::new_unchecked(&(*copy.as_ptr()).key) },
                None => not_validated(),
            }
        }

        /// Returns the key for those who visit what the lock protects, and do not hold it.
        ///
        /// # Safety
        ///
        /// It must not be used when `self` is dropped.
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
        // SAFETY: `LockClassKey` is transparent, and this one is static.
        Pin::static_ref(unsafe { &*(&raw const bindings::__lockdep_no_validate__).cast() })
    }

    impl Drop for LockClass {
        #[inline]
        fn drop(&mut self) {
            if let Some(copy) = self.0 {
                // SAFETY: The copy stays as long as it has users, and this is the last use of it.
                unsafe { copy.as_ref() }.users.fetch_sub(1, Release);
            }
        }
    }

    /// Forgets the keys of a module, none of whose code will run again.
    ///
    /// Context: process. May sleep.
    pub(crate) fn forget(module: *mut bindings::module) {
        let mut copies = COPIES.lock();
        for entry in copies.iter_mut() {
            // SAFETY: The module is not freed before this returns.
            let is_of = |address| unsafe { bindings::within_module(address, module) };
            entry.original = entry.original.filter(|address| !is_of(*address));
        }
        // Also those that other modules have left for the locks that there were then.
        //
        // They have no user, and get none.
        copies.retain(|it| it.original.is_some() || it.copy.users.load(Acquire) != 0);
    }

    /// All classes, to be kept by the module.
    pub(crate) struct LockClasses(());

    impl LockClasses {
        /// Makes locks possible. To be called once.
        pub(crate) fn new() -> Self {
            // SAFETY: The library's own module init calls this, once, and no other module can use
            // the library before it returned.
            unsafe { COPIES.init() };
            Self(())
        }
    }

    impl Drop for LockClasses {
        fn drop(&mut self) {
            // Nobody can make or destroy locks any more. Of those that were leaked, name and key
            // stay behind: lockdep still knows them, and kmemleak sees that.
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

    /// Name and key of a class, if locks had any.
    pub(crate) struct LockClass(());

    impl LockClass {
        /// Returns the class that `key` stands for.
        #[inline]
        pub(crate) fn new(_: &'static CStr, _: Pin<&'static LockClassKey>) -> Self {
            Self(())
        }

        /// Returns a name that nobody looks at.
        ///
        /// # Safety
        ///
        /// None; see `copies`.
        #[inline]
        pub(crate) unsafe fn name(&self) -> &'static CStr {
            c""
        }

        /// Returns a key that nobody looks at, and that has no bytes.
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

    /// Forgets nothing.
    pub(crate) fn forget(_: *mut bindings::module) {}

    /// All classes, of which there are none.
    pub(crate) struct LockClasses(());

    impl LockClasses {
        /// Makes locks possible.
        pub(crate) fn new() -> Self {
            Self(())
        }
    }
}
