// SPDX-License-Identifier: GPL-2.0

//! Transfers values from one module to another, as a registry that both modules use does.
//!
//! Only in test builds.

use kernel::{
    prelude::*,
    sync::global_lock, //
};

use core::{
    any::TypeId,
    ptr::NonNull, //
};

/// A value in a `KBox`, with its type.
struct Stored {
    value: NonNull<()>,
    of: TypeId,
}

// SAFETY: `store()` requires values that are `Send`.
unsafe impl Send for Stored {}

global_lock! {
    // SAFETY: Initialised by `init()`, before any other module can be loaded.
    unsafe(uninit) static STORED: Mutex<KVec<Stored>> = KVec::new();
}

/// Initialises the list of values. Must be called once.
pub(crate) fn init() {
    // SAFETY: The library's module init calls this, once, and no other module can use the library
    // before that returns.
    unsafe { STORED.init() };
}

/// Stores a value for another module, or for the next load of this one.
///
/// Fails with [`ENOMEM`], and drops the value.
///
/// Context: Process context. May sleep.
pub fn store<T: Send + 'static>(value: T) -> Result {
    let value = KBox::new(value, GFP_KERNEL)?;
    let mut stored = STORED.lock();

    stored.reserve(1, GFP_KERNEL)?;
    let value = NonNull::from(KBox::leak(value)).cast();
    let of = TypeId::of::<T>();
    Ok(stored.push(Stored { value, of }, GFP_KERNEL)?)
}

/// Removes and returns a stored value of type `T`, if there is one.
///
/// Context: Process context. May sleep.
pub fn take<T: Send + 'static>() -> Option<T> {
    let mut stored = STORED.lock();
    let index = stored.iter().position(|it| it.of == TypeId::of::<T>())?;
    let value = stored.remove(index).ok()?.value;
    if stored.is_empty() {
        // Frees the memory: a static is not dropped when the library is unloaded.
        *stored = KVec::new();
    }
    drop(stored);

    // SAFETY: `store()` leaked it as a `T`. It was removed above, so there is no other owner.
    let value = unsafe { KBox::from_raw(value.cast::<T>().as_ptr()) };
    Some(KBox::into_inner(value))
}
