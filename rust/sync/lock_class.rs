// SPDX-License-Identifier: GPL-2.0

//! Lock classes that live as long as their locks.
//!
//! A lock points to its name and to the key of its class. In the kernel both are static in the
//! module that creates the lock, and are freed with it. But a lock may outlive this module: safe
//! code can pass any object to another module. So the locks of this library use a copy of the name,
//! and a key of the library instead of the module's key.
//!
//! Each key of a loaded module has one such class. So all locks of one line of code have one class,
//! and lockdep keeps its dependencies. When the module is unloaded, its classes stay until no lock
//! and no guard uses them.
//!
//! Without lockdep a lock has no name and no key, and this module is empty.

use kernel::{
    prelude::*,
    sync::LockClassKey, //
};

#[cfg(CONFIG_LOCKDEP)]
pub(crate) use dynamic::{
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
mod dynamic {
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

    use crate::{
        bindings,
        lib::{
            name,
            stack::{
                Node,
                Stack, //
            }, //
        }, //
    };

    /// The name and the keys of a class.
    #[pin_data]
    struct Class {
        /// Dropped before `name`: dropping the key removes the class, after which lockdep does not
        /// use the name.
        #[pin]
        key: LockClassKey,
        /// As `key`. Not a subclass of `key`: for a dynamic key, lockdep removes the class with
        /// subclass 0 only, see `lockdep_unregister_key()` in `kernel/locking/lockdep.c`.
        #[pin]
        visits_key: LockClassKey,
        name: CString,
        /// The number of locks of the class, of their guards, and of other users.
        users: Atomic<usize>,
    }

    /// A class, and the module's key that it replaces.
    struct Entry {
        /// The address of the module's key. [`None`] if the module was unloaded: the address may
        /// then belong to another module.
        original: Option<usize>,
        class: Pin<KBox<Class>>,
    }

    global_lock! {
        // SAFETY: `LockClasses::new()` initialises it before any other function of the library
        // runs.
        //
        // Nothing is allocated while the lock is held: a shrinker callback may create a lock and
        // acquire this one during reclaim.
        unsafe(uninit) static CLASSES: Mutex<Stack<Entry>> = Stack::new();
    }

    /// Allocates the class of `original`, with a copy of its name.
    fn new_class(name: &CStr, original: usize) -> Result<KBox<Node<Entry>>> {
        let name = name::copy(name)?;
        let class = KBox::pin_init(
            pin_init!(Class {
                key <- LockClassKey::new_dynamic(),
                visits_key <- LockClassKey::new_dynamic(),
                name,
                users: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        Node::new(Entry {
            original: Some(original),
            class,
        })
    }

    /// Returns the class of `original`, if it exists.
    fn find(classes: &Stack<Entry>, original: usize) -> Option<LockClass> {
        let mut classes = classes.iter();
        let entry = classes.find(|it| it.original == Some(original))?;
        entry.class.users.add(1, Relaxed);
        // INVARIANT: The class has just counted this user, and is in `CLASSES`.
        Some(LockClass(Some(NonNull::from(&*entry.class))))
    }

    /// The name and the key of a class, for one or more locks, or for a guard.
    ///
    /// # Invariants
    ///
    /// If [`Some`], the class is in [`CLASSES`], and counts this value as a user.
    pub(crate) struct LockClass(Option<NonNull<Class>>);

    // SAFETY: A class does not change, except for an atomic count.
    unsafe impl Send for LockClass {}

    // SAFETY: As above.
    unsafe impl Sync for LockClass {}

    impl LockClass {
        /// Returns the class of `key`.
        ///
        /// If an allocation fails, or the name is longer than a page, returns a class whose locks
        /// lockdep does not validate.
        ///
        /// Context: Process context. May sleep.
        pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> Self {
            let original = key.as_ptr() as usize;
            let known = find(&CLASSES.lock(), original);
            if let Some(class) = known {
                return class;
            }
            let Ok(node) = new_class(name, original) else {
                return Self(None);
            };

            let mut classes = CLASSES.lock();
            if let Some(class) = find(&classes, original) {
                // Another task was faster. `node` is freed after the lock is released.
                return class;
            }
            classes.push(node);
            find(&classes, original).unwrap_or(Self(None))
        }

        /// Returns the name.
        ///
        /// # Safety
        ///
        /// The name must not be used after `self` is dropped.
        pub(crate) unsafe fn name(&self) -> &'static CStr {
            match self.0 {
                // SAFETY: The class lives while it has users, and by the type invariants `self` is
                // a user. The caller does not use the name for longer.
                Some(class) => &unsafe { &*class.as_ptr() }.name,
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
                // SAFETY: As in `name()`. The class is pinned, and `key` is structurally pinned.
                Some(class) => unsafe { Pin::new_unchecked(&(*class.as_ptr()).key) },
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
                Some(class) => unsafe { Pin::new_unchecked(&(*class.as_ptr()).visits_key) },
                None => not_validated(),
            }
        }
    }

    #[cfg(kscale_kunit)]
    impl LockClass {
        /// Returns the number of users of the class.
        pub(super) fn users(&self) -> usize {
            // SAFETY: The class lives while it has users, and by the type invariants `self` is one.
            self.0
                .map_or(0, |class| unsafe { class.as_ref() }.users.load(Relaxed))
        }
    }

    /// Returns the key of locks that lockdep does not validate.
    fn not_validated() -> Pin<&'static LockClassKey> {
        // SAFETY: `LockClassKey` is transparent, and this key is static.
        Pin::static_ref(unsafe { &*(&raw const bindings::__lockdep_no_validate__).cast() })
    }

    /// Keeps the class, for a guard: lockdep looks up the classes of the locks that a task holds.
    /// If the guard is leaked, the class stays after the lock is freed.
    impl Clone for LockClass {
        #[inline]
        fn clone(&self) -> Self {
            if let Some(class) = self.0 {
                // SAFETY: The class lives while it has users, and by the type invariants `self` is
                // one.
                unsafe { class.as_ref() }.users.add(1, Relaxed);
            }
            // INVARIANT: The class has just counted this user, and is in `CLASSES`.
            Self(self.0)
        }
    }

    impl Drop for LockClass {
        #[inline]
        fn drop(&mut self) {
            if let Some(class) = self.0 {
                // SAFETY: The class lives while it has users, and this is its last use by `self`.
                unsafe { class.as_ref() }.users.fetch_sub(1, Release);
            }
        }
    }

    /// Forgets the keys of a module whose code does not run again.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn forget(module: *mut bindings::module) {
        // SAFETY: The module is not freed before this returns.
        let is_of = |address| unsafe { bindings::within_module(address, module) };
        let is_original = |it: &Entry| it.original.is_some_and(is_of);
        {
            let mut classes = CLASSES.lock();
            while let Some(entry) = classes.find_mut(is_original) {
                entry.original = None;
            }
        }
        // Also removes classes that earlier calls kept for their users. A class without a user and
        // without a key cannot get a user.
        let is_unused = |it: &Entry| it.original.is_none() && it.class.users.load(Acquire) == 0;
        loop {
            let node = CLASSES.lock().take(is_unused);
            // Freed without the lock: a key waits for a grace period.
            if node.is_none() {
                break;
            }
        }
    }

    /// The owner of all classes. The library keeps it.
    pub(crate) struct LockClasses(());

    impl LockClasses {
        /// Initialises the list of classes. Called once, before the first lock is created.
        pub(crate) fn new() -> Self {
            // SAFETY: The module init of the library calls this once. No other module can use the
            // library before it returns.
            unsafe { CLASSES.init() };
            Self(())
        }
    }

    impl Drop for LockClasses {
        fn drop(&mut self) {
            // No task can create or destroy locks now. The name and key of leaked locks are leaked:
            // lockdep still uses them, and kmemleak reports them.
            loop {
                let node = CLASSES.lock().take(|_| true);
                let Some(node) = node else { break };
                let entry = KBox::into_inner(node).value;
                if entry.class.users.load(Acquire) != 0 {
                    mem::forget(entry.class);
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
    #[derive(Clone)]
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
        /// None; see `dynamic`.
        #[inline]
        pub(crate) unsafe fn name(&self) -> &'static CStr {
            c""
        }

        /// Returns an unused key of size 0.
        ///
        /// # Safety
        ///
        /// None; see `dynamic`.
        #[inline]
        pub(crate) unsafe fn key(&self) -> Pin<&'static LockClassKey> {
            static_lock_class!()
        }

        /// Returns a key, as [`LockClass::key()`] does.
        ///
        /// # Safety
        ///
        /// None; see `dynamic`.
        #[inline]
        pub(crate) unsafe fn visits_key(&self) -> Pin<&'static LockClassKey> {
            static_lock_class!()
        }
    }

    #[cfg(kscale_kunit)]
    impl LockClass {
        /// Returns 0.
        pub(super) fn users(&self) -> usize {
            0
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

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_lock_class)]
mod tests {
    use super::*;

    use kernel::static_lock_class;

    use crate::{
        sync::{
            mutex::Mutex,
            rcu_list::List,
            rwsem::RwSemaphore, //
        },
        testing::lockdep, //
    };

    /// Returns whether the guard that `lock` returns keeps `class` while the guard lives.
    ///
    /// Without lockdep there are no classes, and it returns true.
    fn keeps<G>(class: &LockClass, lock: impl FnOnce() -> G) -> bool {
        let before = class.users();
        let guard = lock();
        let during = class.users();
        drop(guard);
        let more = usize::from(cfg!(CONFIG_LOCKDEP));

        (during, class.users()) == (before + more, before)
    }

    /// Lockdep looks up the class of a lock that a task holds, even if the guard was leaked and the
    /// lock was freed.
    #[test]
    fn guards_keep_the_class_of_their_lock() -> Result {
        let key = static_lock_class!();
        let class = LockClass::new(c"guards", key);
        let rwsem = KBox::pin_init(RwSemaphore::new((), c"guards", key), GFP_KERNEL)?;
        let mutex = KBox::pin_init(Mutex::new(c"guards", key), GFP_KERNEL)?;

        assert!(keeps(&class, || rwsem.read()));
        assert!(keeps(&class, || rwsem.try_read()));
        assert!(keeps(&class, || rwsem.write()));
        assert!(keeps(&class, || rwsem.try_write()));
        assert!(keeps(&class, || mutex.lock()));
        Ok(())
    }

    /// A walk at a value is a lock that the task holds, for lockdep.
    #[test]
    fn walks_keep_the_class_of_their_list() -> Result {
        let key = static_lock_class!();
        let class = LockClass::new(c"walks", key);
        let list = KBox::pin_init(List::new(c"walks", key), GFP_KERNEL)?;
        let entry = list.push_front(1, GFP_KERNEL)?;
        let at_value = || {
            let mut walk = list.walk();
            (walk.next() == Some(&1)).then_some(walk)
        };

        assert!(keeps(&class, at_value));
        assert_eq!(list.remove(entry).ok(), Some(1));
        Ok(())
    }

    /// A shrinker callback may create a lock. Reclaim calls it in a task that allocates memory.
    #[test]
    fn classes_are_found_when_memory_is_short() {
        let was_active = lockdep::is_active();
        let key = static_lock_class!();
        let class = LockClass::new(c"lock_class", key);

        let again = lockdep::in_reclaim(|| LockClass::new(c"lock_class", key));

        // SAFETY: Both classes are dropped later.
        let keys = unsafe { (class.key().as_ptr(), again.key().as_ptr()) };
        assert_eq!(keys.0, keys.1);
        assert_eq!(lockdep::is_active(), was_active);
    }
}
