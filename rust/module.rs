// SPDX-License-Identifier: GPL-2.0

//! What must be undone before a module's code goes.
//!
//! A registration that C keeps a pointer to has to be gone when its module is. Its destructor sees
//! to that, but safe code may leak a value, and then it never runs. So what must not outlive a
//! module is noted here, and undone when the kernel says that the module is going: after its exit
//! function, or a failed init function, and before its memory is freed.
//!
//! After a failed init function there may still be references to the module: others could use what
//! it had registered by then. The kernel frees its memory all the same, so this waits for them.

use kernel::{
    bindings,
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    module::this_module,
    prelude::*,
    sync::global_lock,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::srcu;

/// One thing to undo.
struct Undo {
    module: *mut bindings::module,
    stop: unsafe fn(NonNull<c_void>),
    free: unsafe fn(NonNull<c_void>),
    data: NonNull<c_void>,
}

// SAFETY: `on_going()` asks for functions that any task may call.
unsafe impl Send for Undo {}

global_lock! {
    // SAFETY: Initialised by `Notifier::new()`, which all other modules' loading comes after.
    unsafe(uninit) static UNDOS: Mutex<KVec<Undo>> = KVec::new();
}

/// Calls `stop` with `data` when `module` goes, and `free` when the last reference to it is gone.
///
/// Fails with [`ENOMEM`].
///
/// # Safety
///
/// - `module` must be a module that is loaded and whose code this is called from.
/// - `stop` must be fit to be called once with `data`, in process context by any task, when neither
///   the module's init nor its exit function runs any more.
/// - `free` must be fit to be called after `stop`, when nothing refers to the module any more.
/// - Neither may call this function.
pub(crate) unsafe fn on_going(
    module: *mut bindings::module,
    stop: unsafe fn(NonNull<c_void>),
    free: unsafe fn(NonNull<c_void>),
    data: NonNull<c_void>,
) -> Result {
    let undo = Undo {
        module,
        stop,
        free,
        data,
    };
    UNDOS.lock().push(undo, GFP_KERNEL)?;
    Ok(())
}

/// Hears of modules that go, while it lives.
///
/// # Invariants
///
/// `block` is registered as a module notifier until it is dropped.
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
            Self::undo(module.cast());
        }
        // CAST: The constant is 0.
        bindings::NOTIFY_DONE as c_int
    }

    /// Undoes what was noted for a module that goes. Waits for its last reference.
    fn undo(module: *mut bindings::module) {
        let mut any = false;
        for undo in UNDOS.lock().iter().filter(|undo| undo.module == module) {
            any = true;
            // SAFETY: The module is going, so its init and exit functions have returned. The
            // kernel says so once for each time that it loads a module.
            unsafe { (undo.stop)(undo.data) };
        }
        srcu::wait_for_callbacks(module);
        if !any {
            return;
        }

        // SAFETY: The module is not freed before the notifiers have returned.
        while unsafe { bindings::module_refcount(module) } > 0 {
            // No new references are given to a module that is going, so it only gets less.
            fsleep(Delta::from_millis(10));
        }
        UNDOS.lock().retain(|undo| {
            if undo.module != module {
                return true;
            }
            // SAFETY: `stop` was called above, and nothing refers to the module any more. The undo
            // leaves the list now, so this is called once.
            unsafe { (undo.free)(undo.data) };
            false
        });
    }
}

#[pinned_drop]
impl PinnedDrop for Notifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `block` is registered by the type invariants.
        unsafe { bindings::unregister_module_notifier(self.block.get()) };
        // The library is the last to go, and nobody hears of that any more.
        Self::undo(this_module::<crate::LocalModule>().as_ptr());
        // It is empty, as all users of the library have gone, but has memory.
        *UNDOS.lock() = KVec::new();
    }
}
