// SPDX-License-Identifier: GPL-2.0

//! Directories with files.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    sync::Arc, //
};

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use crate::module::teardown::{
    self,
    Teardown,
    TeardownId, //
};

use super::{
    directory::Directory,
    file::{
        self,
        Files, //
    },
    operations::Private,
    raw::{
        self,
        Dentry, //
    }, //
};

/// A directory with the [`Files`] of a value. Dropping it removes the files, and waits for their
/// running functions.
///
/// The directory itself stays until the directories in it are dropped, too. A leaked directory is
/// removed when the module that implements [`Files`] is unloaded.
///
/// A function of a file must not drop the directory, see [Deadlocks](super#deadlocks).
#[must_use = "the files are removed once it is dropped"]
pub struct Dir<T: Files> {
    teardown: TeardownId,
    /// Invariant: the record of `teardown` has the type `T`, not a subtype.
    _invariant: PhantomData<fn(T) -> T>,
}

impl<T: Files> Dir<T> {
    /// Creates a directory in the root of debugfs, with the files of `data`.
    ///
    /// Fails with [`ENOMEM`]. Fails with [`EINVAL`] if the code of the functions is not in the
    /// module that implements [`Files`]. Fails with [`ENODEV`] during the unload of a module that
    /// keeps making registrations. It does not fail if debugfs [refuses](super) the directory or a
    /// file.
    ///
    /// Context: Process context. May sleep. C: `debugfs_create_dir()` in `include/linux/debugfs.h`.
    pub fn new(name: &CStr, data: Arc<T>) -> Result<Self> {
        Self::create(name, None, data)
    }

    /// As [`new()`](Self::new), in another directory.
    ///
    /// Fails with [`ENODEV`] if the other directory was leaked by a module that is unloaded.
    ///
    /// Context: Process context. May sleep.
    pub fn new_in<P: Files>(parent: &Dir<P>, name: &CStr, data: Arc<T>) -> Result<Self> {
        Self::create(name, Some(parent.directory().ok_or(ENODEV)?), data)
    }

    fn create(name: &CStr, parent: Option<Arc<Directory>>, data: Arc<T>) -> Result<Self> {
        if !teardown::is_in_module::<KBox<Instance<T>>>() {
            pr_err!("debugfs: files must belong to the module that creates them\n");
            return Err(EINVAL);
        }
        let data = teardown::unless_closed::<KBox<Instance<T>>, _>(data)?;
        let flags = GFP_KERNEL | __GFP_NOWARN;
        let instance = KBox::new_uninit(GFP_KERNEL)?;
        let mut privates = KVVec::with_capacity(T::FILES.len(), flags)?;
        let mut entries = KVVec::with_capacity(T::FILES.len(), flags)?;
        for (index, file) in T::FILES.iter().enumerate() {
            privates.push(file::private(NonNull::from(&*data), index, file), flags)?;
        }
        let directory = Directory::new(name, parent)?;

        for (file, private) in T::FILES.iter().zip(&privates) {
            // SAFETY: The instance keeps the vector, whose elements do not move, the data and the
            // directory. Nothing below fails before `stop()` can remove the files.
            let entry = unsafe { directory.create_file(file.name(), private) };
            // The capacity is reserved.
            let _ = entries.push_within_capacity(entry);
        }
        let instance = KBox::write(
            instance,
            Instance {
                entries,
                privates,
                data,
                directory,
            },
        );
        // SAFETY: Checked above, and the files exist.
        let teardown = unsafe { teardown::register(instance) }?;
        Ok(Self {
            teardown,
            _invariant: PhantomData,
        })
    }

    /// Returns the directory, unless it was leaked and its module is going.
    fn directory(&self) -> Option<Arc<Directory>> {
        // SAFETY: `create()` has registered an instance with this type.
        unsafe {
            self.teardown
                .with::<KBox<Instance<T>>, _>(|instance| instance.directory.clone())
        }
    }
}

impl<T: Files> Drop for Dir<T> {
    fn drop(&mut self) {
        self.teardown.end();
    }
}

/// The state of a directory, which lives while C may call the functions of its files.
struct Instance<T: Files> {
    entries: KVVec<Dentry>,
    /// The targets of `i_private` in C, and their data. Never read.
    #[cfg_attr(not(all(kscale_kunit, CONFIG_DEBUG_FS)), expect(dead_code))]
    privates: KVVec<Private>,
    #[expect(dead_code, reason = "keeps what `privates` has pointers to")]
    data: Arc<T>,
    /// Dropped after the files are removed.
    directory: Arc<Directory>,
}

// SAFETY: C calls the functions that `file::callbacks()` returns. Any task may remove files, and
// drop the `Arc`s.
unsafe impl<T: Files> Teardown for KBox<Instance<T>> {
    type OwnerModule = T::OwnerModule;

    fn callbacks() -> impl AsRef<[usize]> {
        file::callbacks::<T>()
    }

    /// Removes the files, and waits for their running functions.
    unsafe fn stop(instance: &Instance<T>) {
        for entry in &instance.entries {
            // SAFETY: The entry was created before `teardown::register()`, and this is called once.
            unsafe { raw::remove(*entry) };
        }
    }
}

#[cfg(all(kscale_kunit, CONFIG_DEBUG_FS))]
#[kunit_tests(kscale_debugfs)]
mod tests {
    use super::{
        super::{
            raw::exists,
            File, //
        },
        *, //
    };

    use kernel::{
        fmt,
        str::CString,
        uaccess::UserSliceReader, //
    };

    use crate::module::cleanup::{
        self,
        testing::EmptyModule, //
    };

    /// The names of the files are good, as the first one, or refused.
    struct Data(u32);

    #[vtable]
    impl Files for Data {
        const FILES: &'static [File<Self>] = &[
            File::read_only(c"value", Self::show),
            File::write_only(c"reset", Self::store),
            File::read_only(c"value", Self::show),
            File::read_only(c"", Self::show),
            File::read_only(c"a/b", Self::show),
            File::read_only(c"..", Self::show),
            File::read_only(c"large", Self::large),
            File::write_only(c"restart", Self::restart),
        ];
    }

    impl Data {
        fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.0)
        }

        /// Writes more than the limit.
        fn large(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..=(4 << 20) / 64 {
                write!(f, "{:64}", self.0)?;
            }
            Ok(())
        }

        fn store(&self, _: &mut UserSliceReader) -> Result {
            Ok(())
        }

        /// Fails with an error that is not for processes.
        fn restart(&self, _: &mut UserSliceReader) -> Result {
            Err(ERESTARTSYS)
        }
    }

    fn data(value: u32) -> Result<Arc<Data>> {
        Ok(Arc::new(Data(value), GFP_KERNEL)?)
    }

    #[test]
    fn drop_removes_the_files_and_frees_the_data() -> Result {
        let data = data(7)?;

        let dir = Dir::new(c"kscale_debugfs", data.clone())?;
        assert!(exists(&[c"kscale_debugfs", c"value"]));
        assert!(exists(&[c"kscale_debugfs", c"reset"]));
        drop(dir);

        assert!(!exists(&[c"kscale_debugfs"]));
        assert!(Arc::into_unique_or_drop(data).is_some());
        Ok(())
    }

    #[test]
    fn files_can_only_be_read_or_written() -> Result {
        let dir = Dir::new(c"kscale_debugfs", data(7)?)?;
        let read = |index, size| {
            // SAFETY: The instance has this type.
            let contents = unsafe {
                dir.teardown.with::<KBox<Instance<Data>>, _>(|instance| {
                    let private: &Private = instance.privates.get(index).ok_or(EINVAL)?;
                    private.has_contents(size, "7")
                })
            };
            contents.unwrap_or(Err(ENODEV))
        };

        assert_eq!(read(0, 64), Ok(true));
        assert_eq!(read(1, 64), Err(EINVAL));
        assert_eq!(read(0, 4 << 20), Ok(true));
        assert_eq!(read(0, 8 << 20), Err(EFBIG));
        assert_eq!(read(6, 64), Err(EFBIG));

        let mode = |index| {
            // SAFETY: The instance has this type.
            let mode = unsafe {
                dir.teardown.with::<KBox<Instance<Data>>, _>(|instance| {
                    instance.privates.get(index).map(Private::mode)
                })
            };
            mode.flatten()
        };
        // Only root may do either.
        assert_eq!((mode(0), mode(1)), (Some(0o400), Some(0o200)));

        let write = |index| {
            // SAFETY: The instance has this type.
            let written = unsafe {
                dir.teardown.with::<KBox<Instance<Data>>, _>(|instance| {
                    instance.privates.get(index).map(Private::write_nothing)
                })
            };
            written.flatten()
        };
        // CAST: From 32 to 64 bits.
        let errno = |error: Error| Some(error.to_errno() as isize);

        assert_eq!(write(1), Some(0));
        assert_eq!(write(0), errno(EINVAL));
        assert_eq!(write(7), errno(EIO));
        Ok(())
    }

    /// Modules in C look directories up by name, and remove them.
    #[test]
    fn the_kernel_may_remove_a_directory() -> Result {
        let data = data(1)?;
        let outer = Dir::new(c"kscale_debugfs", data.clone())?;
        let inner = Dir::new_in(&outer, c"inner", data.clone())?;

        raw::remove_by_name(c"kscale_debugfs");
        assert!(!exists(&[c"kscale_debugfs"]));
        let late = Dir::new_in(&inner, c"late", data.clone())?;
        drop(late);
        drop(outer);
        drop(inner);

        assert!(Arc::into_unique_or_drop(data).is_some());
        Ok(())
    }

    #[test]
    fn a_name_that_exists_is_refused() -> Result {
        let first = Dir::new(c"kscale_debugfs", data(1)?)?;

        let second = Dir::new(c"kscale_debugfs", data(2)?)?;
        let inner = Dir::new_in(&second, c"inner", data(3)?)?;
        assert!(!exists(&[c"kscale_debugfs", c"inner"]) && !exists(&[c"inner"]));
        drop(second);
        drop(inner);

        assert!(exists(&[c"kscale_debugfs", c"value"]));
        drop(first);
        assert!(!exists(&[c"kscale_debugfs"]));
        Ok(())
    }

    #[test]
    fn names_are_refused_without_a_warning() -> Result {
        for name in [c"", c"a/b", c".", c".."] {
            drop(Dir::new(name, data(1)?)?);
        }
        // The kernel warns of an allocation of more than 4 MiB.
        for (len, is_good) in [(255, true), (256, false), (5 << 20, false)] {
            let mut bytes = KVVec::from_elem(b'k', len, GFP_KERNEL)?;
            bytes.push(0, GFP_KERNEL)?;
            let name = CStr::from_bytes_with_nul(&bytes).map_err(|_| EINVAL)?;

            let dir = Dir::new(name, data(1)?)?;
            assert_eq!(len < 1 << 20 && exists(&[name, c"value"]), is_good);
            drop(dir);
        }
        Ok(())
    }

    #[test]
    fn a_directory_stays_until_those_in_it_are_dropped() -> Result {
        let data = data(1)?;
        let outer = Dir::new(c"kscale_debugfs", data.clone())?;
        let inner = Dir::new_in(&outer, c"inner", data.clone())?;
        assert!(exists(&[c"kscale_debugfs", c"inner", c"value"]));

        drop(outer);
        assert!(!exists(&[c"kscale_debugfs", c"value"]));
        assert!(exists(&[c"kscale_debugfs", c"inner", c"value"]));
        drop(inner);

        assert!(!exists(&[c"kscale_debugfs"]));
        assert!(Arc::into_unique_or_drop(data).is_some());
        Ok(())
    }

    #[test]
    fn directories_may_be_deeply_nested() -> Result {
        let data = data(1)?;
        let mut dir = Dir::new(c"kscale_debugfs", data.clone())?;

        // The drop of the last one must not recurse.
        for level in 0..500 {
            let name = CString::try_from_fmt(fmt!("{level}"))?;
            dir = Dir::new_in(&dir, &name, data.clone())?;
        }
        assert!(exists(&[c"kscale_debugfs", c"0", c"1", c"2"]));
        drop(dir);

        assert!(!exists(&[c"kscale_debugfs"]));
        Ok(())
    }

    #[test]
    fn an_ended_directory_gets_no_others() -> Result {
        let dir = Dir::new(c"kscale_debugfs", data(1)?)?;

        dir.teardown.end();

        assert!(!exists(&[c"kscale_debugfs"]));
        let error = Dir::new_in(&dir, c"inner", data(2)?).err();
        assert_eq!(error, Some(ENODEV));
        Ok(())
    }

    #[test]
    fn failed_cleanup_record_removes_the_files() -> Result {
        let data = data(1)?;

        let error = cleanup::ADD
            .fail(|| Dir::new(c"kscale_debugfs", data.clone()).map(drop))
            .err();

        assert_eq!(error, Some(ENOMEM));
        assert!(!exists(&[c"kscale_debugfs"]));
        assert!(Arc::into_unique_or_drop(data).is_some());
        Ok(())
    }

    #[test]
    fn directory_can_be_leaked() -> Result {
        core::mem::forget(Dir::new(c"kscale_debugfs_leaked", data(1)?)?);
        Ok(())
    }

    /// Files with an `OwnerModule` that does not contain their code.
    struct Foreign;

    #[vtable]
    impl Files for Foreign {
        type OwnerModule = EmptyModule;

        const FILES: &'static [File<Self>] = &[];
    }

    #[test]
    fn code_of_another_module_is_rejected() -> Result {
        let foreign = Arc::new(Foreign, GFP_KERNEL)?;

        let error = Dir::new(c"kscale_debugfs", foreign.clone()).err();

        assert_eq!(error, Some(EINVAL));
        assert!(Arc::into_unique_or_drop(foreign).is_some());
        Ok(())
    }
}
