// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs.
//!
//! A [`Dir`] is a directory with the [`Files`] of a value. The functions of a file show the value,
//! or change it.
//!
//! A process may keep a file open after its directory was dropped, and after the module of the
//! directory was unloaded. It then cannot read or write the file, and may close it. The open file
//! keeps only this library loaded. So `kernel::debugfs` must not be used in its place: the
//! operations of its files are memory of the module that creates them, and the kernel reads them
//! when such a process closes the file.
//!
//! As in C, a module works without its files: if debugfs refuses a directory or a file, the
//! directory has none, or lacks this one. It does so with `debugfs=off`, for a name that exists, is
//! empty or has a `/`, or without memory. The log has a line for a name that exists.
//!
//! # Deadlocks
//!
//! The drop of a [`Dir`] waits for the running functions of its files. So a function must not drop
//! its own directory, nor wait for a task that does. While a file is removed, the kernel holds the
//! lock of its directory, so a function must not create or drop a [`Dir`] in its own one.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/debugfs.rs")]
//! ```
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

mod dir;
mod directory;
mod file;
mod operations;
mod raw;

pub use self::{
    dir::Dir,
    file::{
        File,
        Files, //
    }, //
};
