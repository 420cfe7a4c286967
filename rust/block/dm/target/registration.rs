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
        RecordId, //
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

/// Registration of a target type. Table lines may use the target while it lives.
///
/// The module of the target keeps it in its state. After it is dropped, existing tables continue to
/// use the target and keep the module loaded. A leaked registration is dropped at module unload.
///
/// # Invariants
///
/// `id` is the cleanup action of a target type. The type is registered until the action runs.
pub struct Registration<T: Target> {
    id: RecordId,
    _target: PhantomData<T>,
}

// SAFETY: Another task than the registering one may unregister a target.
unsafe impl<T: Target> Send for Registration<T> {}

// SAFETY: `&Registration` has no methods.
unsafe impl<T: Target> Sync for Registration<T> {}

impl<T: Target> Registration<T> {
    /// Registers the target as [`Target::NAME`].
    ///
    /// Fails with the errors of [`Registration::with_name()`].
    ///
    /// Context: Process context. May sleep. C: `dm_register_target()` in `drivers/md/dm-target.c`.
    pub fn new() -> Result<Self> {
        Self::with_name(T::NAME)
    }

    /// Registers the target under another name.
    ///
    /// Fails with [`EBUSY`] if the name is taken. Fails with [`EINVAL`] if the code of the
    /// callbacks is outside the module that implements [`Target`], which is the module that tables
    /// keep loaded. Each call allocates a little memory that is only freed at module unload.
    ///
    /// Context: As [`Registration::new()`].
    pub fn with_name(name: &'static CStr) -> Result<Self> {
        let module = this_module::<T::OwnerModule>().as_ptr();
        let (raw, functions) = (Vtable::<T>::target_type(name), Vtable::<T>::FUNCTIONS);
        // SAFETY: `module` is the `THIS_MODULE` of a module whose types are used here, so it is
        // loaded.
        if !unsafe { cleanup::has_code(module, &Vtable::<T>::addresses(&raw, &functions)) } {
            pr_err!("dm: target must belong to the module that registers it\n");
            return Err(EINVAL);
        }
        // Device mapper keeps pointers to the type, so it stays allocated until the module is
        // unloaded.
        let target_type = TargetType::new(raw, functions)?;
        // SAFETY:
        // - The module with the code of `T` is loaded, and its init function, or code that it
        //   calls, runs this.
        // - `unregister()` may be called as soon as the type is registered, and `free()` after
        //   that. Every table that uses the target has a reference to the module, see
        //   `get_target_type()` in `drivers/md/dm-target.c`, so no table is left at `free()`.
        let id = unsafe {
            cleanup::prepare(
                module,
                target_type::unregister,
                target_type::free,
                target_type.cast(),
            )
        };
        let id = match id {
            Ok(id) => id,
            Err(error) => {
                // SAFETY: It was allocated above, and no pointer to it is left.
                unsafe { target_type::free(target_type.cast()) };
                return Err(error);
            }
        };

        // SAFETY:
        // - The type was just allocated, and is not moved until `free()`, after `unregister()`.
        // - The callbacks are those of `T`. They are code of `module`, see above, which device
        //   mapper keeps loaded while a table uses the target, and code of this library, which
        //   `module` keeps loaded.
        // - A function that still runs after the last table is gone runs in a section that `free()`
        //   waits for, see `target_type.rs`.
        to_result(unsafe { bindings::dm_register_target(TargetType::raw(target_type)) })?;
        // SAFETY: `id` is from above. The caller is code of the module, so the module is not
        // unloaded.
        unsafe { cleanup::activate(id) };
        // INVARIANT: Just registered.
        Ok(Self {
            id,
            _target: PhantomData,
        })
    }
}

impl<T: Target> Drop for Registration<T> {
    fn drop(&mut self) {
        cleanup::stop_now(self.id);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_registration)]
mod tests {
    use super::*;

    use crate::block::dm::{
        Args,
        CtrError,
        MapBio,
        MapResult,
        TargetBuilder, //
    };

    /// A target that ends every bio with an error.
    struct Refuse;

    #[vtable]
    impl Target for Refuse {
        const NAME: &'static CStr = c"kscale_refuse";
        const VERSION: [u32; 3] = [1, 0, 0];
        type PerBio = ();

        fn ctr(
            _: &mut TargetBuilder<'_>,
            _: Args<'_>,
        ) -> Result<impl PinInit<Self, Error>, CtrError> {
            Ok(Ok::<Self, Error>(Self))
        }

        fn map<'a>(self: Pin<&Self>, bio: MapBio<'a, Self>) -> MapResult<'a, Self> {
            bio.kill()
        }
    }

    #[test]
    fn name_is_free_after_unregistration() -> Result {
        let first = Registration::<Refuse>::new()?;
        assert!(Registration::<Refuse>::new().is_err_and(|error| error == EBUSY));

        drop(first);
        assert!(Registration::<Refuse>::new().is_ok());
        Ok(())
    }

    #[test]
    fn target_registers_under_several_names() -> Result {
        let _first = Registration::<Refuse>::new()?;
        assert!(Registration::<Refuse>::with_name(c"kscale_refuse2").is_ok());
        Ok(())
    }

    /// The guest test `modules` checks that the name is gone after the library was unloaded.
    #[test]
    fn registration_can_be_leaked() -> Result {
        core::mem::forget(Registration::<Refuse>::with_name(c"kscale_leaked")?);
        Ok(())
    }
}
