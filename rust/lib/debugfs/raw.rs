// SPDX-License-Identifier: GPL-2.0

//! The functions of debugfs. Without `CONFIG_DEBUG_FS` they do nothing, as in C.

#[cfg(CONFIG_DEBUG_FS)]
mod functions {
    use kernel::{
        error::from_err_ptr,
        prelude::*, //
    };

    use core::ptr;

    use super::super::operations::{
        Private,
        OPERATIONS, //
    };

    use crate::bindings;

    /// The maximum length of a name. debugfs refuses longer ones, too, but first allocates memory
    /// for them: the kernel warns of an allocation of more than 4 MiB.
    const NAME_MAX: usize = bindings::NAME_MAX as usize;

    /// A directory entry of debugfs with a reference to it, or an error of debugfs.
    ///
    /// The kernel may remove an entry by its name, as `debugfs_lookup_and_remove()` does.
    #[derive(Clone, Copy)]
    pub(crate) struct Dentry(*mut bindings::dentry);

    // SAFETY: Any task may use and remove an entry.
    unsafe impl Send for Dentry {}

    // SAFETY: As above. debugfs has locks.
    unsafe impl Sync for Dentry {}

    /// Creates a directory in `parent`, or in the root.
    ///
    /// # Safety
    ///
    /// `parent` must be from this function, and not have been removed.
    pub(crate) unsafe fn create_dir(name: &CStr, parent: Option<Dentry>) -> Dentry {
        if name.to_bytes().len() > NAME_MAX {
            return Dentry(ENAMETOOLONG.to_ptr());
        }
        let parent = parent.map_or(ptr::null_mut(), |parent| parent.0);
        // SAFETY: `parent` is NULL, or an entry or error of this function, by the safety
        // requirements.
        referenced(unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) })
    }

    /// Adds a reference to a new entry.
    fn referenced(entry: *mut bindings::dentry) -> Dentry {
        if from_err_ptr(entry).is_ok() {
            // SAFETY: It was just created.
            unsafe { bindings::dget(entry) };
        }
        Dentry(entry)
    }

    /// Creates a file in `parent`.
    ///
    /// # Safety
    ///
    /// - `parent` must be from [`create_dir()`], and not have been removed.
    /// - `private` must be valid, and so must its data, until the file is removed.
    pub(crate) unsafe fn create_file(name: &CStr, parent: Dentry, private: &Private) -> Dentry {
        if name.to_bytes().len() > NAME_MAX {
            return Dentry(ENAMETOOLONG.to_ptr());
        }
        // SAFETY: By the safety requirements, `parent` is an entry or error of
        // `debugfs_create_dir()`. The operations are for files with such private data, and debugfs
        // calls them until the file is removed. An open file has a reference to their owner.
        referenced(unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                private.mode(),
                parent.0,
                ptr::from_ref(private).cast_mut().cast(),
                ptr::null(),
                OPERATIONS.as_ptr(),
            )
        })
    }

    /// Removes an entry, and waits for the running functions of its files.
    ///
    /// # Safety
    ///
    /// `entry` must be from this module, and must not have been removed.
    pub(crate) unsafe fn remove(entry: Dentry) {
        let Ok(entry) = from_err_ptr(entry.0) else {
            return;
        };
        // SAFETY: By the safety requirements, it is an entry with a reference, which is not used
        // again. C must not remove an entry twice.
        unsafe {
            if bindings::d_unhashed(entry) == 0 {
                bindings::debugfs_remove(entry);
            }
            bindings::dput(entry);
        }
    }

    /// Removes a file or directory in the root.
    #[cfg(kscale_kunit)]
    pub(crate) fn remove_by_name(name: &CStr) {
        // SAFETY: NULL is the root.
        unsafe { bindings::debugfs_lookup_and_remove(name.as_char_ptr(), ptr::null_mut()) };
    }

    /// Returns whether there is a file or directory with the path.
    #[cfg(kscale_kunit)]
    pub(crate) fn exists(path: &[&CStr]) -> bool {
        let mut found: *mut bindings::dentry = ptr::null_mut();
        for name in path {
            // SAFETY: `found` is NULL, or an entry to which this has a reference.
            let next = unsafe { bindings::debugfs_lookup(name.as_char_ptr(), found) };
            // SAFETY: As above. The reference is not used any more.
            unsafe { bindings::dput(found) };
            if next.is_null() {
                return false;
            }
            found = next;
        }
        // SAFETY: As above.
        unsafe { bindings::dput(found) };
        true
    }
}

#[cfg(not(CONFIG_DEBUG_FS))]
mod functions {
    use kernel::prelude::*;

    use super::super::operations::Private;

    /// No directory entry.
    #[derive(Clone, Copy)]
    pub(crate) struct Dentry;

    /// Does nothing.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    pub(crate) unsafe fn create_dir(_: &CStr, _: Option<Dentry>) -> Dentry {
        Dentry
    }

    /// Does nothing.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    pub(crate) unsafe fn create_file(_: &CStr, _: Dentry, _: &Private) -> Dentry {
        Dentry
    }

    /// Does nothing.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    pub(crate) unsafe fn remove(_: Dentry) {}
}

pub(super) use self::functions::*;
