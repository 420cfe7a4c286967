// SPDX-License-Identifier: GPL-2.0

//! What must be undone before a module's code goes.
//!
//! A registration that C keeps a pointer to has to be gone when its module is. Its destructor sees
//! to that, but safe code may leak a value, and then it never runs. So what must not outlive a
//! module is noted here, and undone when the kernel says that the module is going: after its exit
//! function, or a failed init function, and before its memory is freed.

use kernel::{
    bindings,
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::global_lock,
    types::Opaque, //
};

use core::ptr::NonNull;

/// One thing to undo.
struct Undo {
    module: *mut bindings::module,
    func: unsafe fn(NonNull<c_void>),
    data: NonNull<c_void>,
}

// SAFETY: `on_going()` asks for a `func` that may be called by any task.
unsafe impl Send for Undo {}

global_lock! {
    // SAFETY: Initialised by `Notifier::new()`, which all other modules' loading comes after.
    unsafe(uninit) static UNDOS: Mutex<KVec<Undo>> = KVec::new();
}

/// Calls `func` with `data` when `module` goes.
///
/// Fails with [`ENOMEM`].
///
/// # Safety
///
/// - `module` must be a module that is loaded and whose code this is called from.
/// - `func` must be fit to be called once with `data`, in process context by any task, when no
///   code of the module but `func` will run any more. It must not call this function.
pub(crate) unsafe fn on_going(
    module: *mut bindings::module,
    func: unsafe fn(NonNull<c_void>),
    data: NonNull<c_void>,
) -> Result {
    let undo = Undo { module, func, data };
    UNDOS.lock().push(undo, GFP_KERNEL)?;
    Ok(())
}

/// Hears of modules that go, while it lives.
///
/// # Invariants
///
/// `block` is registered as a module notifier until [`PinnedDrop`] runs.
#[pin_data(PinnedDrop)]
pub(crate) struct Notifier {
    #[pin]
    block: Opaque<bindings::notifier_block>,
}

// SAFETY: A notifier may be unregistered by any task.
unsafe impl Send for Notifier {}

// SAFETY: There is nothing to do with a `&Notifier`.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// Starts to listen. To be called once, before anything else in this crate.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: `block` is registered if this closure returns `Ok`.
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                // SAFETY: The library's own module init calls this, once, and no other module can
                // use the library before it returned.
                unsafe { UNDOS.init() };
                let block = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { slot.write(block) };
                // SAFETY: `slot` was written, and stays put until `PinnedDrop`.
                to_result(unsafe { bindings::register_module_notifier(slot) })
            }),
        })
    }

    /// Undoes what was noted for a module that goes.
    ///
    /// # Safety
    ///
    /// The module notifier chain must call this.
    unsafe extern "C" fn call(
        _block: *mut bindings::notifier_block,
        state: c_ulong,
        module: *mut c_void,
    ) -> c_int {
        // CAST: From 32 to 64 bits.
        if state == bindings::module_state_MODULE_STATE_GOING as c_ulong {
            UNDOS.lock().retain(|undo| {
                if undo.module != module.cast() {
                    return true;
                }
                // SAFETY: The module is going, so none of its own code runs any more: its last
                // reference is gone and its exit function has returned. The undo leaves the list
                // now, so it is called once.
                unsafe { (undo.func)(undo.data) };
                false
            });
        }
        // CAST: The constant is 0.
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl PinnedDrop for Notifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `block` is registered by the type invariants.
        unsafe { bindings::unregister_module_notifier(self.block.get()) };
    }
}
