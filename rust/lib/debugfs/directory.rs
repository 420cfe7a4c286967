// SPDX-License-Identifier: GPL-2.0

//! A directory of debugfs without its files.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    operations::Private,
    raw::{
        self,
        Dentry, //
    }, //
};

/// A directory, which exists until it is dropped. Directories in it have a reference to it.
///
/// # Invariants
///
/// `dentry` is from [`raw::create_dir()`], and is not removed before the drop.
pub(super) struct Directory {
    dentry: Dentry,
    parent: Option<Arc<Directory>>,
}

impl Directory {
    /// Creates a directory in `parent`, or in the root. Fails with [`ENOMEM`].
    pub(super) fn new(name: &CStr, parent: Option<Arc<Directory>>) -> Result<Arc<Self>> {
        let dentry = parent.as_ref().map(|parent| parent.dentry);
        // SAFETY: The parent exists, so its entry is not removed, by the type invariants.
        let dentry = unsafe { raw::create_dir(name, dentry) };
        // INVARIANT: Just created. If this fails, the initializer is dropped, and removes it.
        Ok(Arc::new(Self { dentry, parent }, GFP_KERNEL)?)
    }

    /// Creates a file.
    ///
    /// # Safety
    ///
    /// - `private` must be valid, and so must its data, until the file is removed.
    /// - The file must be removed before the directory is dropped.
    pub(super) unsafe fn create_file(&self, name: &CStr, private: &Private) -> Dentry {
        // SAFETY: By the type invariants and the safety requirements.
        unsafe { raw::create_file(name, self.dentry, private) }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. Directories in this one are gone, as they have a
        // reference.
        unsafe { raw::remove(self.dentry) };

        // Not by recursion: directories may be deeply nested.
        let mut parent = self.parent.take();
        while let Some(mut last) = parent.and_then(Arc::into_unique_or_drop) {
            parent = last.parent.take();
        }
    }
}
