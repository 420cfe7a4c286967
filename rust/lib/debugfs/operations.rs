// SPDX-License-Identifier: GPL-2.0

//! The operations of all files, which are code and data of this library.
//!
//! debugfs calls all of them but `release` between `debugfs_file_get()` and `debugfs_file_put()`.
//! The former fails after the file was removed, and the removal waits for the latter. So the
//! private data is used only while the file exists.

use kernel::{
    ffi::{
        c_char,
        c_int,
        c_void, //
    },
    fmt::{
        self,
        Write, //
    },
    module::this_module,
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceReader, //
    }, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    lib::errno::user_errno, //
};

/// The maximum size of the buffer for the contents of a file. `seq_read()` doubles it until they
/// fit, and the kernel warns of very large allocations.
const MAX_BYTES: usize = 4 << 20;

/// Writes the contents of a file. The arguments are the data, and the index of the file.
type Show = unsafe fn(NonNull<c_void>, usize, &mut fmt::Formatter<'_>) -> fmt::Result;

/// Reads what a process writes.
type Store = unsafe fn(NonNull<c_void>, usize, &mut UserSliceReader) -> Result;

/// What `i_private` of a file points to: its data, and functions for the type of the data.
pub(super) struct Private {
    pub(super) data: NonNull<c_void>,
    pub(super) index: usize,
    pub(super) show: Option<Show>,
    pub(super) store: Option<Store>,
}

impl Private {
    /// Returns the access rights of the file.
    pub(super) fn mode(&self) -> bindings::umode_t {
        match self.show {
            Some(_) => 0o400,
            None => 0o200,
        }
    }
}

/// The operations of all files. Each open file has a reference to their owner, the library.
pub(super) struct Operations(bindings::file_operations);

// SAFETY: Nothing writes to them.
unsafe impl Sync for Operations {}

impl Operations {
    /// Returns the C operations.
    pub(super) fn as_ptr(&self) -> *const bindings::file_operations {
        &raw const self.0
    }
}

/// For files whose `i_private` points to a [`Private`], whose data exists until the file is
/// removed.
pub(super) static OPERATIONS: Operations = Operations(bindings::file_operations {
    owner: this_module::<crate::LocalModule>().as_ptr(),
    open: Some(open),
    read: Some(bindings::seq_read),
    write: Some(write),
    llseek: Some(bindings::seq_lseek),
    release: Some(bindings::single_release),
    ..pin_init::zeroed()
});

/// Opens a file.
///
/// # Safety
///
/// Only debugfs may call this, as `open` of a file with [`OPERATIONS`].
unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: By the safety requirements, the inode is valid.
    let private = unsafe { (*inode).i_private };
    // SAFETY: By the safety requirements, `file` is being opened. `show()` gets the private data.
    unsafe { bindings::single_open(file, Some(show), private) }
}

/// The contents of a file.
struct Contents<'a>(&'a Private);

impl fmt::Display for Contents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.show {
            // SAFETY: The function is for the type of the data, which exists while this is
            // borrowed.
            Some(show) => unsafe { show(self.0.data, self.0.index, f) },
            None => Ok(()),
        }
    }
}

/// Adds text to a file, up to a number of bytes. `seq_printf()` warns if the number is above
/// `INT_MAX`.
struct Bounded {
    seq: *mut bindings::seq_file,
    left_bytes: usize,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some(left_bytes) = self.left_bytes.checked_sub(text.len()) else {
            self.is_full = true;
            return Err(fmt::Error);
        };
        self.left_bytes = left_bytes;
        // If the buffer is too small, C calls again with a larger one.
        //
        // SAFETY: `show()` has the `seq_file` until it returns.
        unsafe { bindings::seq_write(self.seq, text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}

/// Writes the contents of a file.
///
/// # Safety
///
/// Only `seq_read()` and `seq_lseek()` may call this, for a file that [`open()`] has opened.
unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements, `single_open()` has set the pointer, and the file exists.
    let private = unsafe { &*(*seq).private.cast::<Private>() };
    if private.show.is_none() {
        return EINVAL.to_errno();
    }
    // SAFETY: By the safety requirements, the caller holds the lock of the `seq_file`.
    if unsafe { (*seq).size } > MAX_BYTES {
        return EFBIG.to_errno();
    }
    let mut bounded = Bounded {
        seq,
        left_bytes: MAX_BYTES,
        is_full: false,
    };
    // The contents end where the function fails.
    let _ = bounded.write_fmt(fmt!("{}", Contents(private)));
    if bounded.is_full {
        return EFBIG.to_errno();
    }
    0
}

/// Passes the buffer of a process to the function of a file.
///
/// # Safety
///
/// Only debugfs may call this, as `write` of a file with [`OPERATIONS`].
unsafe extern "C" fn write(
    file: *mut bindings::file,
    buf: *const c_char,
    count: usize,
    _: *mut bindings::loff_t,
) -> isize {
    // SAFETY: By the safety requirements, `open()` has opened the file, so this is its `seq_file`.
    let seq = unsafe { (*file).private_data.cast::<bindings::seq_file>() };
    // SAFETY: As above, `single_open()` has set the pointer, and the file exists.
    let private = unsafe { &*(*seq).private.cast::<Private>() };
    let Some(store) = private.store else {
        // CAST: From 32 to 64 bits.
        return EINVAL.to_errno() as isize;
    };
    let buf = UserPtr::from_ptr(buf.cast_mut().cast());
    let mut reader = UserSlice::new(buf, count).reader();
    // SAFETY: The function is for the type of the data, which exists.
    match unsafe { store(private.data, private.index, &mut reader) } {
        // CAST: The kernel writes at most `MAX_RW_COUNT` bytes.
        Ok(()) => count as isize,
        // CAST: From 32 to 64 bits.
        Err(error) => user_errno(error) as isize,
    }
}

#[cfg(kscale_kunit)]
pub(super) mod testing {
    use super::*;

    use core::{
        mem::MaybeUninit,
        ptr,
        str, //
    };

    impl Private {
        /// Reads the contents, which must be shorter than 64 bytes, and compares them. Fails with
        /// the error of the file. `size` is that of the buffer, as C says.
        pub(crate) fn has_contents(&self, size: usize, contents: &str) -> Result<bool> {
            let mut text = [0_u8; 64];
            let mut seq = bindings::seq_file {
                buf: text.as_mut_ptr().cast(),
                size,
                private: ptr::from_ref(self).cast_mut().cast(),
                ..pin_init::zeroed()
            };
            // SAFETY: The `seq_file` is as `seq_read()` passes it, and the contents fit.
            kernel::error::to_result(unsafe { show(&raw mut seq, ptr::null_mut()) })?;
            Ok(text.get(..seq.count) == Some(contents.as_bytes()))
        }

        /// Writes nothing to the file, and returns what `write()` returns.
        pub(crate) fn write_nothing(&self) -> isize {
            let mut seq = bindings::seq_file {
                private: ptr::from_ref(self).cast_mut().cast(),
                ..pin_init::zeroed()
            };
            let mut file = MaybeUninit::<bindings::file>::zeroed();
            // SAFETY: The file is zeroed, and nothing else uses it.
            unsafe { (*file.as_mut_ptr()).private_data = (&raw mut seq).cast() };
            // SAFETY: The file has the `seq_file` that `open()` would give it, with this private
            // data.
            unsafe { write(file.as_mut_ptr(), ptr::null(), 0, ptr::null_mut()) }
        }
    }
}
