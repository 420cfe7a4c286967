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
struct Given {
    value: NonNull<()>,
    of: TypeId,
}

// SAFETY: `give()` requires values that are `Send`.
unsafe impl Send for Given {}

global_lock! {
    // SAFETY: Initialised by `init()`, before any other module can be loaded.
    unsafe(uninit) static GIVEN: Mutex<KVec<Given>> = KVec::new();
}

/// Initialises the list of values. Must be called once.
pub(crate) fn init() {
    // SAFETY: The library's module init calls this, once, and no other module can use the library
    // before that returns.
    unsafe { GIVEN.init() };
}

/// Stores a value for another module, or for the next load of this one.
///
/// Fails with [`ENOMEM`], and drops the value.
///
/// Context: Process context. May sleep.
pub fn give<T: Send + 'static>(value: T) -> Result {
    let value = KBox::new(value, GFP_KERNEL)?;
    let mut given = GIVEN.lock();

    given.reserve(1, GFP_KERNEL)?;
    let value = NonNull::from(KBox::leak(value)).cast();
    let of = TypeId::of::<T>();
    Ok(given.push(Given { value, of }, GFP_KERNEL)?)
}

/// Removes and returns a stored value of type `T`, if there is one.
///
/// Context: Process context. May sleep.
pub fn take<T: Send + 'static>() -> Option<T> {
    let mut given = GIVEN.lock();
    let index = given.iter().position(|it| it.of == TypeId::of::<T>())?;
    let value = given.remove(index).ok()?.value;
    if given.is_empty() {
        // Frees the memory: a static is not dropped when the library is unloaded.
        *given = KVec::new();
    }
    drop(given);

    // SAFETY: `give()` leaked it as a `T`. It was removed above, so there is no other owner.
    let value = unsafe { KBox::from_raw(value.cast::<T>().as_ptr()) };
    Some(KBox::into_inner(value))
}
