// SPDX-License-Identifier: GPL-2.0

//! Registration of target types.

use kernel::{
    error::to_result,
    module::this_module,
    prelude::*, //
};

use core::marker::PhantomData;

use crate::{
    bindings,
    module::cleanup::{
        self,
        Noted, //
    }, //
};

use super::{
    target_type::{
        self,
        TargetType, //
    },
    vtable::Vtable,
    Target, //
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
        let (raw, functions) = (Vtable::<T>::target_type(name), Vtable::<T>::FUNCTIONS);
        // SAFETY: `module` is the `THIS_MODULE` of a module whose types this uses, so it is loaded.
        if !unsafe { cleanup::has_code(module, &Vtable::<T>::addresses(&raw, &functions)) } {
            pr_err!("a target must be registered by the module that implements it\n");
            return Err(EINVAL);
        }
        // Device mapper keeps pointers to it, so it stays until the module goes.
        let target_type = TargetType::new(raw, functions)?;
        // SAFETY:
        // - The module with the code of `T` is loaded, and this is code that runs by its leave: its
        //   init function, or what it calls.
        // - `unregister()` may be called with it as soon as it is registered, and `free()` after
        //   that. Every table that uses the target has a reference to the module, see
        //   `get_target_type()` in `drivers/md/dm-target.c`, so none is left for `free()`.
        let noted = unsafe {
            cleanup::prepare(
                module,
                target_type::unregister,
                target_type::free,
                target_type.cast(),
            )
        };
        let noted = match noted {
            Ok(noted) => noted,
            Err(error) => {
                // SAFETY: It was made above, and nobody has a pointer to it.
                unsafe { target_type::free(target_type.cast()) };
                return Err(error);
            }
        };

        // SAFETY:
        // - It was just allocated, and stays where it is until `free()`, after `unregister()`.
        // - The callbacks are those of `T`. They are code of `module`, see above, which device mapper
        //   keeps loaded while a table uses the target, and code of this library, which `module`
        //   keeps loaded.
        // - What goes on to run after the last table is gone runs in a section that `free()` waits
        //   for, see `target_type.rs`.
        to_result(unsafe { bindings::dm_register_target(TargetType::raw(target_type)) })?;
        // SAFETY: `noted` is from above. This is code of the module, so it is kept from going.
        unsafe { cleanup::activate(noted) };
        // INVARIANT: Just registered.
        Ok(Self {
            noted,
            _target: PhantomData,
        })
    }
}

impl<T: Target> Drop for Registration<T> {
    fn drop(&mut self) {
        cleanup::stop_now(self.noted);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_registration)]
mod tests {
    use super::*;

    use crate::block::dm::{
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
