// SPDX-License-Identifier: GPL-2.0

//! Registration of target types.
//!
//! A registration does not use `module::teardown`, which frees a value as soon as its registration
//! is dropped. Device mapper and the tables that use a target keep pointers to its type after the
//! type is unregistered, so the type stays allocated until the module is unloaded.

use kernel::{
    error::to_result,
    module::this_module,
    prelude::*, //
};

use core::marker::PhantomData;

use crate::{
    bindings,
    module::{
        cleanup::{
            self,
            RecordId, //
        },
        code, //
    }, //
};

use super::{
    target_type::{
        self,
        Registered,
        TargetType, //
    },
    vtable::Vtable,
    Target, //
};

/// The maximum length of a name.
const MAX_NAME_BYTES: usize = 127;

/// Registration of a target type. Table lines may use the target while it lives.
///
/// The module of the target keeps it in its state. After it is dropped, existing tables continue to
/// use the target and keep the module loaded. A leaked registration is dropped at module unload.
///
/// The registration owns the [`Target::ModuleData`]. The data is dropped at module unload, after
/// the last table and after the exit function of the module.
///
/// # Invariants
///
/// `id` is the cleanup action of a target type. The type is registered until the action runs.
pub struct Registration<T: Target> {
    id: RecordId,
    _target: PhantomData<T>,
}

// SAFETY: Any task may unregister a target: `dm_unregister_target()` in `drivers/md/dm-target.c`
// takes the lock that it needs. Any task may drop the data, which is `Send`.
unsafe impl<T: Target> Send for Registration<T> {}

// SAFETY: `&Registration` has no methods.
unsafe impl<T: Target> Sync for Registration<T> {}

impl<T: Target> Registration<T> {
    /// Registers the target as [`Target::NAME`]. [`Target::ctr()`] borrows `data`.
    ///
    /// Fails with the errors of [`Registration::with_name()`].
    ///
    /// Context: Process context. May sleep. C: `dm_register_target()` in `drivers/md/dm-target.c`.
    pub fn new(data: T::ModuleData) -> Result<Self> {
        Self::with_name(T::NAME, data)
    }

    /// Registers the target under another name, which is copied.
    ///
    /// Fails with [`EBUSY`] if the name is taken. Fails with [`EINVAL`] if the name has more than
    /// 127 bytes; a table line has room for 15. Fails with [`EINVAL`], too, if the code of the
    /// callbacks is outside the module that implements [`Target`], which is the module that tables
    /// keep loaded. Fails with [`ENODEV`] during the unload of a module that keeps making
    /// registrations. Each call allocates a little memory that is only freed at module unload, also
    /// if the name is taken. `data` is dropped then, too.
    ///
    /// Context: As [`Registration::new()`].
    pub fn with_name(name: &CStr, data: T::ModuleData) -> Result<Self> {
        // The kernel warns of an allocation of more than 4 MiB.
        if name.count_bytes() > MAX_NAME_BYTES {
            return Err(EINVAL);
        }
        let module = this_module::<T::OwnerModule>().as_ptr();
        let (raw, functions) = (Vtable::<T>::target_type(), Vtable::<T>::FUNCTIONS);
        // SAFETY: `module` is the `THIS_MODULE` of a module whose types are used here, so it is
        // loaded.
        if !unsafe { code::has_code(module, &Vtable::<T>::addresses(&raw, &functions)) } {
            pr_err!("dm: target must belong to the module that registers it\n");
            return Err(EINVAL);
        }
        let data = cleanup::unless_closed(module, data)?;
        // Device mapper keeps pointers to the type, so it stays allocated until the module is
        // unloaded.
        let target_type = Registered::<T>::alloc(raw, name, functions, data)?;
        // SAFETY:
        // - The module with the code of `T` is loaded, and its code calls this.
        // - `unregister()` may be called as soon as the type is registered. `release()` and
        //   `free()` may be called after that, or if the type was never registered. Every table
        //   that uses the target has a reference to the module, see `get_target_type()` in
        //   `drivers/md/dm-target.c`, so no table is left then. Any task may drop the data, which
        //   is `Send`.
        // - `activate()` or `abandon()` is called below.
        let id = unsafe {
            cleanup::prepare(
                module,
                target_type::unregister,
                Registered::<T>::release,
                Registered::<T>::free,
                target_type.cast(),
            )
        };
        let id = match id {
            Ok(id) => id,
            Err(error) => {
                // SAFETY: It was allocated above, and no pointer to it is left.
                unsafe { Registered::<T>::release(target_type.cast()) };
                // SAFETY: As above, and it was just released.
                unsafe { Registered::<T>::free(target_type.cast()) };
                return Err(error);
            }
        };
        if cleanup::is_closed(module) {
            // SAFETY: `id` is from above. The type is not registered, so nothing uses it.
            unsafe { cleanup::abandon(id) };
            // SAFETY: As above: no function of the type can run.
            unsafe { cleanup::free_refused(id) };
            return Err(ENODEV);
        }

        // SAFETY:
        // - The type was just allocated, and is not moved until `free()`, after `unregister()`.
        // - The callbacks are those of `T`. They are code of `module`, see above, which device
        //   mapper keeps loaded while a table uses the target, and code of this library, which
        //   `module` keeps loaded.
        // - A function that still runs after the last table is gone runs in a section that `free()`
        //   waits for, see `target_type.rs`.
        let registered =
            to_result(unsafe { bindings::dm_register_target(TargetType::raw(target_type)) });
        if let Err(error) = registered {
            // SAFETY: `id` is from above. The type is not registered, so nothing uses it.
            unsafe { cleanup::abandon(id) };
            return Err(error);
        }
        // SAFETY: `id` is from above, and the type is registered.
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

    use kernel::{
        str::CString,
        sync::Arc, //
    };

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
        type ModuleData = Option<Arc<u8>>;
        type PerBio = ();

        fn ctr(
            _: &Self::ModuleData,
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
        let first = Registration::<Refuse>::new(None)?;
        assert!(Registration::<Refuse>::new(None).is_err_and(|error| error == EBUSY));

        drop(first);
        assert!(Registration::<Refuse>::new(None).is_ok());
        Ok(())
    }

    #[test]
    fn target_registers_under_several_names() -> Result {
        let _first = Registration::<Refuse>::new(None)?;
        assert!(Registration::<Refuse>::with_name(c"kscale_refuse2", None).is_ok());
        Ok(())
    }

    #[test]
    fn name_is_copied() -> Result {
        let name = CString::try_from(c"kscale_refuse3")?;
        let _first = Registration::<Refuse>::with_name(&name, None)?;
        drop(name);
        let again = Registration::<Refuse>::with_name(c"kscale_refuse3", None);
        assert!(again.is_err_and(|error| error == EBUSY));
        Ok(())
    }

    #[test]
    fn long_names_are_refused() -> Result {
        for (length, error) in [(MAX_NAME_BYTES, None), (MAX_NAME_BYTES + 1, Some(EINVAL))] {
            let mut bytes = KVVec::from_elem(b'n', length, GFP_KERNEL)?;
            bytes.push(0, GFP_KERNEL)?;
            let name = CStr::from_bytes_with_nul(&bytes).map_err(|_| EINVAL)?;
            assert_eq!(Registration::<Refuse>::with_name(name, None).err(), error);
        }
        Ok(())
    }

    /// A table may use the target after the registration is dropped.
    #[test]
    fn module_data_outlives_registration() -> Result {
        let data = Arc::new(7, GFP_KERNEL)?;

        drop(Registration::<Refuse>::new(Some(data.clone()))?);
        assert!(Arc::into_unique_or_drop(data).is_none());
        Ok(())
    }

    #[test]
    fn failed_registration_drops_module_data() -> Result {
        let data = Arc::new(7, GFP_KERNEL)?;

        let result = cleanup::ADD.fail(|| Registration::<Refuse>::new(Some(data.clone())));
        assert!(result.is_err_and(|error| error == ENOMEM));
        assert!(Arc::into_unique_or_drop(data).is_some());
        Ok(())
    }

    /// The guest test `modules` checks that the name is gone after the library was unloaded.
    #[test]
    fn registration_can_be_leaked() -> Result {
        core::mem::forget(Registration::<Refuse>::with_name(c"kscale_leaked", None)?);
        Ok(())
    }
}
