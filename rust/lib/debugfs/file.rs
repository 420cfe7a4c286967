// SPDX-License-Identifier: GPL-2.0

//! The files of a directory, and their functions.

use kernel::{
    ffi::c_void,
    fmt,
    prelude::*,
    uaccess::UserSliceReader, //
};

use core::ptr::NonNull;

use super::operations::Private;

/// The function of a [`File`].
enum Function<T> {
    Show(fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result),
    Store(fn(&T, &mut UserSliceReader) -> Result),
}

/// A file of a [`Dir`](super::Dir): its name and its function.
pub struct File<T> {
    name: &'static CStr,
    function: Function<T>,
}

impl<T> File<T> {
    /// Returns a file that root may read. `show` writes its contents.
    ///
    /// `show` runs again if the text does not fit into the buffer of the kernel, and for a process
    /// that seeks. If it fails, the contents end there. A file of 4 MiB or more cannot be read:
    /// [`EFBIG`].
    ///
    /// Context: Any context. Never sleeps. `show` runs in process context, and may sleep. See
    /// [Deadlocks](super#deadlocks). C: `DEFINE_SHOW_ATTRIBUTE()` in `include/linux/seq_file.h`.
    pub const fn read_only(
        name: &'static CStr,
        show: fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> Self {
        Self {
            name,
            function: Function::Show(show),
        }
    }

    /// Returns a file that root may write. `store` reads what a process writes in one call.
    ///
    /// The process gets the error of `store`, or [`EIO`] for an error that user space does not
    /// have.
    ///
    /// Context: Any context. Never sleeps. `store` runs in process context, and may sleep. See
    /// [Deadlocks](super#deadlocks).
    pub const fn write_only(
        name: &'static CStr,
        store: fn(&T, &mut UserSliceReader) -> Result,
    ) -> Self {
        Self {
            name,
            function: Function::Store(store),
        }
    }

    /// Returns the name.
    pub(super) const fn name(&self) -> &'static CStr {
        self.name
    }
}

/// The data of a directory, and its files.
#[vtable]
pub trait Files: Send + Sync + Sized + 'static {
    /// The files of the directory.
    const FILES: &'static [File<Self>];
}

/// Returns what C keeps for the file with this index.
pub(super) fn private<T: Files>(data: NonNull<T>, index: usize, file: &File<T>) -> Private {
    Private {
        data: data.cast(),
        index,
        show: match file.function {
            Function::Show(_) => Some(show::<T>),
            Function::Store(_) => None,
        },
        store: match file.function {
            Function::Show(_) => None,
            Function::Store(_) => Some(store::<T>),
        },
    }
}

/// Returns the addresses of the functions that C calls for a `T`.
pub(super) fn callbacks<T: Files>() -> [usize; 2] {
    [
        show::<T> as *const () as usize,
        store::<T> as *const () as usize,
    ]
}

/// Calls the function of a file that is read.
///
/// # Safety
///
/// `data` must be a valid `T`.
unsafe fn show<T: Files>(
    data: NonNull<c_void>,
    index: usize,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    // SAFETY: By the safety requirements.
    let data = unsafe { data.cast::<T>().as_ref() };
    match T::FILES.get(index).map(|file| &file.function) {
        Some(Function::Show(show)) => show(data, f),
        _ => Err(fmt::Error),
    }
}

/// Calls the function of a file that is written.
///
/// # Safety
///
/// `data` must be a valid `T`.
unsafe fn store<T: Files>(
    data: NonNull<c_void>,
    index: usize,
    reader: &mut UserSliceReader,
) -> Result {
    // SAFETY: By the safety requirements.
    let data = unsafe { data.cast::<T>().as_ref() };
    match T::FILES.get(index).map(|file| &file.function) {
        Some(Function::Store(store)) => store(data, reader),
        _ => Err(EINVAL),
    }
}
