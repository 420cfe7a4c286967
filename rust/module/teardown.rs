// SPDX-License-Identifier: GPL-2.0

//! Ends the use of a value by C: when the owner is dropped, or at module unload if the owner is
//! leaked.

use kernel::{
    ffi::c_void,
    module::this_module,
    prelude::*,
    types::ForeignOwnable,
    ModuleMetadata, //
};

use core::ptr::NonNull;

use super::{
    cleanup::{
        self,
        RecordId, //
    },
    code, //
};

/// A handle of a value that C uses, through callbacks, until it is stopped.
///
/// # Safety
///
/// - [`callbacks()`](Self::callbacks) must return the addresses of all functions that depend on the
///   type and that C may call.
/// - Any task may call [`stop()`](Self::stop) and [`finish()`](Self::finish), and drop the handle.
pub(crate) unsafe trait Teardown: ForeignOwnable + 'static {
    /// The module that must have all code that depends on the type.
    type OwnerModule: ModuleMetadata;

    /// Returns the addresses of the callbacks.
    fn callbacks() -> impl AsRef<[usize]>;

    /// Ends the use by C, and waits for running callbacks.
    ///
    /// # Safety
    ///
    /// Must be called once for a value, in process context, and only for a value that was passed to
    /// [`register()`].
    unsafe fn stop(value: Self::Borrowed<'_>);

    /// Runs after [`stop()`](Self::stop), before the handle is dropped. Code of the module may have
    /// used the value meanwhile.
    fn finish(&self) {}
}

/// The cleanup record of a value. If it is leaked, the module notifier stops and drops the value.
pub(crate) struct TeardownId(RecordId);

impl TeardownId {
    /// Stops the value, and drops its handle. Does nothing if that was done, or if the module is
    /// going: the notifier does it.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn end(&self) {
        // SAFETY: The record is from `register()`: `free()` only requires `stop()`.
        unsafe { cleanup::end(self.0) };
    }

    /// Returns what `f` returns for the value, unless it is being stopped or was stopped.
    ///
    /// `f` must neither add nor end a cleanup record (deadlock).
    ///
    /// # Safety
    ///
    /// The value must be a `P`.
    ///
    /// Context: Process context. May sleep.
    pub(crate) unsafe fn with<P: Teardown, R>(
        &self,
        f: impl FnOnce(P::Borrowed<'_>) -> R,
    ) -> Option<R> {
        cleanup::with_active(self.0, |data| {
            // SAFETY: By the safety requirements, `data` is from `into_foreign()` of a `P`. It is
            // not freed before this returns, as the record stays active.
            f(unsafe { P::borrow(data.as_ptr()) })
        })
    }
}

/// Returns whether all code that depends on `P` is code of its module.
pub(crate) fn is_in_module<P: Teardown>() -> bool {
    let module = this_module::<P::OwnerModule>().as_ptr();
    let own = [
        stop::<P> as *const () as usize,
        free::<P> as *const () as usize,
    ];
    [P::callbacks().as_ref(), &own]
        .iter()
        // SAFETY: `module` is the `THIS_MODULE` of a module whose types are in use, so it is
        // loaded.
        .all(|addresses| unsafe { code::has_code(module, addresses) })
}

/// Returns the data of a registration that the caller is about to make. Drops it and fails with
/// [`ENODEV`] if [`register()`] would refuse the registration, see [`cleanup::unless_closed()`].
pub(crate) fn unless_closed<P: Teardown, V: 'static>(value: V) -> Result<V> {
    cleanup::unless_closed(this_module::<P::OwnerModule>().as_ptr(), value)
}

/// Adds a cleanup record that stops and drops `value`, which C may use.
///
/// Fails with [`ENOMEM`]; the value is then stopped and dropped. Fails with [`ENODEV`] if the
/// module is going, and makes registrations all the time; the value is then stopped and dropped,
/// too, or dropped later if the caller is the destructor of another such value.
///
/// # Safety
///
/// - [`is_in_module::<P>()`](is_in_module) must be true.
/// - [`Teardown::stop()`] must be callable with the value, as long as nothing else calls it.
pub(crate) unsafe fn register<P: Teardown>(value: P) -> Result<TeardownId> {
    let module = this_module::<P::OwnerModule>().as_ptr();
    // SAFETY: `into_foreign()` does not return NULL.
    let data = unsafe { NonNull::new_unchecked(value.into_foreign()) };

    // SAFETY:
    // - The code of `P` is in `module`, by the safety requirements. This function is a part of it,
    //   so `module` is loaded.
    // - `data` is from `into_foreign()`, and the value can be stopped, by the safety requirements.
    //   `free()` only requires that.
    let id = unsafe { cleanup::register(module, stop::<P>, free::<P>, data) };
    if id.is_err() {
        // SAFETY: As above, and there is no record that calls it.
        unsafe { stop::<P>(data) };
        // SAFETY: As above. The value was just stopped.
        unsafe { free::<P>(data) };
    }
    let id = id?;
    if cleanup::is_closed(module) {
        // SAFETY: The record is from above: `free()` only requires `stop()`.
        unsafe { cleanup::refuse(id) };
        return Err(ENODEV);
    }
    Ok(TeardownId(id))
}

/// Stops a value.
///
/// # Safety
///
/// `data` must be from `into_foreign()` of a `P` that may be stopped, and not have been freed.
unsafe fn stop<P: Teardown>(data: NonNull<c_void>) {
    // SAFETY: By the safety requirements, and `free()` runs later.
    let value = unsafe { P::borrow(data.as_ptr()) };
    // SAFETY: By the safety requirements.
    unsafe { P::stop(value) };
}

/// Drops the handle of a value.
///
/// # Safety
///
/// `data` must be from `into_foreign()` of a `P`, which was stopped. Must be called once.
unsafe fn free<P: Teardown>(data: NonNull<c_void>) {
    // SAFETY: By the safety requirements.
    let value = unsafe { P::from_foreign(data.as_ptr()) };
    value.finish();
}
