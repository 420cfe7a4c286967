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
    module::{
        self,
        Noted, //
    }, //
};

use super::{
    target::Target,
    vtable::Vtable, //
};

/// Lets table lines use a target, for as long as it lives.
///
/// Goes into the state of the module that has the target. When it is dropped, tables that use the
/// target go on to work, and keep the module loaded. One that is leaked is dropped when the module
/// goes.
///
/// # Invariants
///
/// What was `noted` is a target type, which is registered until it is stopped.
pub struct Registration<T: Target> {
    noted: Noted,
    _target: PhantomData<T>,
}

// SAFETY: A target may be unregistered by another task than the one that registered it.
unsafe impl<T: Target> Send for Registration<T> {}

// SAFETY: There is nothing to do with a `&Registration`.
unsafe impl<T: Target> Sync for Registration<T> {}

impl<T: Target> Registration<T> {
    /// Registers the target as [`Target::NAME`].
    ///
    /// Fails as [`Registration::with_name()`] does.
    ///
    /// Context: Process context; sleeps. C: `dm_register_target()` in `drivers/md/dm-target.c`.
    pub fn new() -> Result<Self> {
        Self::with_name(T::NAME)
    }

    /// Registers the target under another name.
    ///
    /// Fails with [`EBUSY`] if the name is taken, and with [`EINVAL`] if the code of the callbacks
    /// is not in the module that implements [`Target`], which tables keep loaded. Costs a little
    /// memory that is only given back when the module goes.
    ///
    /// Context: As [`Registration::new()`].
    pub fn with_name(name: &'static CStr) -> Result<Self> {
        let module = this_module::<T::OwnerModule>().as_ptr();
        let raw = Vtable::<T>::target_type(name);
        if !Self::is_in(module, &raw) {
            pr_err!("a target must be registered by the module that implements it\n");
            return Err(EINVAL);
        }
        // Device mapper keeps pointers to it, so it stays until the module goes.
        let target_type = NonNull::from(KBox::leak(KBox::new(raw, GFP_KERNEL)?));
        // SAFETY:
        // - The module with the code of `T` is loaded, and this is its code, see above.
        // - `unregister()` may be called with it as soon as it is registered, and `free()` after
        //   that. Every table that uses the target has a reference to the module, see
        //   `get_target_type()`, so none is left for `free()`.
        let noted =
            unsafe { module::prepare(module, Self::unregister, Self::free, target_type.cast()) };
        let noted = match noted {
            Ok(noted) => noted,
            Err(error) => {
                // SAFETY: It was leaked above, and nobody has a pointer to it.
                drop(unsafe { KBox::from_raw(target_type.as_ptr()) });
                return Err(error);
            }
        };

        // SAFETY:
        // - It was just allocated, and stays where it is until `free()`, after `unregister()`.
        // - The callbacks are those of `T`, and `module` is the module they are in, see above.
        to_result(unsafe { bindings::dm_register_target(target_type.as_ptr()) })?;
        // SAFETY: `noted` is from above. This is code of the module, so it is kept from going.
        unsafe { module::activate(noted) };
        // INVARIANT: Just registered.
        Ok(Self {
            noted,
            _target: PhantomData,
        })
    }

    /// Tells whether all that device mapper and [`module`] will call is code of `module`.
    ///
    /// It is not if `T` is generic and this is another module than the one with the `impl`, or if
    /// that names another module than its own.
    fn is_in(module: *mut bindings::module, target_type: &bindings::target_type) -> bool {
        let own = [
            Self::unregister as *const () as usize,
            Self::free as *const () as usize,
        ];
        let is_inside = |address: &usize| {
            // SAFETY: `module` is the `THIS_MODULE` of a module whose types this uses, so it is
            // loaded; it is not NULL, see below.
            unsafe { bindings::within_module(*address, module) }
        };
        // Built-in code has no module.
        !module.is_null()
            && Vtable::<T>::addresses(target_type)
                .iter()
                .filter(|address| **address != 0)
                .all(is_inside)
            && own.iter().all(is_inside)
    }

    /// Unregisters a target type.
    ///
    /// # Safety
    ///
    /// `target_type` must be that of [`Registration::with_name()`], and registered.
    unsafe fn unregister(target_type: NonNull<c_void>) {
        // SAFETY: By the safety requirements.
        unsafe { bindings::dm_unregister_target(target_type.cast().as_ptr()) };
    }

    /// Frees a target type.
    ///
    /// # Safety
    ///
    /// `target_type` must be that of [`Registration::with_name()`], and not registered; no table
    /// may use it.
    unsafe fn free(target_type: NonNull<c_void>) {
        // SAFETY: `with_name()` allocated it so, and nobody has a pointer to it any more.
        drop(unsafe { KBox::<bindings::target_type>::from_raw(target_type.cast().as_ptr()) });
    }
}

impl<T: Target> Drop for Registration<T> {
    fn drop(&mut self) {
        module::stop_now(self.noted);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_registration)]
mod tests {
    use super::*;

    use crate::dm::{
        Args,
        CtrError,
        Map,
        MapBio,
        Table, //
    };

    /// A target that ends every bio with an error.
    struct Refuse;

    #[vtable]
    impl Target for Refuse {
        const NAME: &'static CStr = c"kscale_refuse";
        const VERSION: [u32; 3] = [1, 0, 0];
        type PerBio = ();

        fn ctr(_: &mut Table<'_>, _: Args<'_>) -> Result<impl PinInit<Self, Error>, CtrError> {
            Ok(Ok::<Self, Error>(Self))
        }

        fn map<'a>(self: Pin<&Self>, bio: MapBio<'a, Self>) -> Map<'a, Self> {
            bio.kill()
        }
    }

    #[test]
    fn a_name_is_taken_until_its_registration_is_dropped() -> Result {
        let first = Registration::<Refuse>::new()?;
        assert!(Registration::<Refuse>::new().is_err_and(|error| error == EBUSY));

        drop(first);
        assert!(Registration::<Refuse>::new().is_ok());
        Ok(())
    }

    #[test]
    fn a_target_may_have_several_names() -> Result {
        let _first = Registration::<Refuse>::new()?;
        assert!(Registration::<Refuse>::with_name(c"kscale_refuse2").is_ok());
        Ok(())
    }

    /// The guest test `modules` looks for the name when the library is gone.
    #[test]
    fn a_registration_may_be_leaked() -> Result {
        core::mem::forget(Registration::<Refuse>::with_name(c"kscale_leaked")?);
        Ok(())
    }
}
