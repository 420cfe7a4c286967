// SPDX-License-Identifier: GPL-2.0

//! Hands values from one module to another, as a registry does that both of them use.
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

/// A value that was given, which is in a `KBox`.
struct Given {
    value: NonNull<()>,
    of: TypeId,
}

// SAFETY: `give()` asks for values that are `Send`.
unsafe impl Send for Given {}

global_lock! {
    // SAFETY: Initialised by `init()`, which all other modules' loading comes after.
    unsafe(uninit) static GIVEN: Mutex<KVec<Given>> = KVec::new();
}

/// Makes it possible. To be called once.
pub(crate) fn init() {
    // SAFETY: The library's own module init calls this, once, and no other module can use the
    // library before it returned.
    unsafe { GIVEN.init() };
}

/// Keeps a value for another module, or for the next load of this one.
///
/// Fails with [`ENOMEM`], and drops the value then.
///
/// Context: process. May sleep.
pub fn give<T: Send + 'static>(value: T) -> Result {
    let value = KBox::new(value, GFP_KERNEL)?;
    let mut given = GIVEN.lock();

    given.reserve(1, GFP_KERNEL)?;
    let value = NonNull::from(KBox::leak(value)).cast();
    let of = TypeId::of::<T>();
    Ok(given.push(Given { value, of }, GFP_KERNEL)?)
}

/// Returns a value of this type that was given, if there is one.
///
/// Context: process. May sleep.
pub fn take<T: Send + 'static>() -> Option<T> {
    let mut given = GIVEN.lock();
    let index = given.iter().position(|it| it.of == TypeId::of::<T>())?;
    let value = given.remove(index).ok()?.value;
    if given.is_empty() {
        // Nobody drops a static when the library goes.
        *given = KVec::new();
    }
    drop(given);

    // SAFETY: `give()` leaked it, a `T`, and this has removed it, so nobody else has it.
    let value = unsafe { KBox::from_raw(value.cast::<T>().as_ptr()) };
    Some(KBox::into_inner(value))
}
