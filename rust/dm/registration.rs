// SPDX-License-Identifier: GPL-2.0

//! Registration of target types.

use kernel::{
    error::to_result,
    ffi::c_void,
    module::this_module,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use crate::{
    bindings,
    module, //
};

use super::target::{
    Target,
    Vtable, //
};

/// What device mapper keeps pointers to, so it stays until the target's module goes.
struct TargetType {
    raw: bindings::target_type,
    registered: bool,
}

/// Lets table lines use a target, for as long as it lives.
///
/// Goes into the state of the module that has the target. When it is dropped, tables that use the
/// target go on to work, and keep the module loaded. One that is leaked is dropped when the module
/// goes.
///
/// # Invariants
///
/// `target_type` is allocated until the target's module goes, and registered.
pub struct Registration<T: Target> {
    target_type: NonNull<TargetType>,
    _target: PhantomData<T>,
}

// SAFETY: A target may be unregistered by another task than the one that registered it.
unsafe impl<T: Target> Send for Registration<T> {}

// SAFETY: There is nothing to do with a `&Registration`.
unsafe impl<T: Target> Sync for Registration<T> {}

impl<T: Target> Registration<T> {
    /// Registers the target as [`Target::NAME`].
    ///
    /// Fails with [`EBUSY`] if the name is taken.
    ///
    /// Context: Process context; sleeps. C: `dm_register_target()` in `drivers/md/dm-target.c`.
    pub fn new() -> Result<Self> {
        Self::with_name(T::NAME)
    }

    /// Registers the target under another name.
    ///
    /// Fails with [`EBUSY`] if the name is taken. Costs a little memory that is only given back
    /// when the module goes.
    ///
    /// Context: As [`Registration::new()`].
    pub fn with_name(name: &'static CStr) -> Result<Self> {
        let target_type = NonNull::from(KBox::leak(KBox::new(
            TargetType {
                raw: Vtable::<T>::target_type(name),
                registered: false,
            },
            GFP_KERNEL,
        )?));
        let module = this_module::<T::OwnerModule>().as_ptr();
        // SAFETY:
        // - The module with the code of `T` is loaded, as this is part of it.
        // - `going()` may be called when no table uses the target any more, which none does when
        //   its module goes: each has a reference, see `get_target_type()`.
        let noted = unsafe { module::on_going(module, Self::going, target_type.cast()) };
        if let Err(error) = noted {
            // SAFETY: It was leaked above, and nobody has a pointer to it.
            drop(unsafe { KBox::from_raw(target_type.as_ptr()) });
            return Err(error);
        }

        // SAFETY: `target_type` was just allocated, and nobody else has a pointer to it.
        let raw = unsafe { &raw mut (*target_type.as_ptr()).raw };
        // SAFETY:
        // - `raw` was written, and stays where it is until `going()`, which unregisters it.
        // - The callbacks are those of `T`, and `module` is the module they are in.
        to_result(unsafe { bindings::dm_register_target(raw) })?;
        // SAFETY: Device mapper has pointers to `raw` only.
        unsafe { (*target_type.as_ptr()).registered = true };
        // INVARIANT: Just registered.
        Ok(Self {
            target_type,
            _target: PhantomData,
        })
    }

    /// Frees a target type, and unregisters it if its registration was leaked.
    ///
    /// # Safety
    ///
    /// `target_type` must be a [`TargetType`] of [`Registration::with_name()`] that no table uses,
    /// nor any [`Registration`] that will be dropped.
    unsafe fn going(target_type: NonNull<c_void>) {
        // SAFETY: By this function's contract.
        let mut target_type = unsafe { KBox::<TargetType>::from_raw(target_type.cast().as_ptr()) };
        if target_type.registered {
            // SAFETY: It is registered, and freed only below.
            unsafe { bindings::dm_unregister_target(&raw mut target_type.raw) };
        }
    }
}

impl<T: Target> Drop for Registration<T> {
    fn drop(&mut self) {
        let target_type = self.target_type.as_ptr();
        // SAFETY: It is allocated and registered by the type invariants.
        unsafe { bindings::dm_unregister_target(&raw mut (*target_type).raw) };
        // SAFETY: As above. Device mapper does not touch `registered`, nor does anybody else
        // before the module goes.
        unsafe { (*target_type).registered = false };
    }
}
