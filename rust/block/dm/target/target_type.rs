// SPDX-License-Identifier: GPL-2.0

//! Target types as they are registered, and calls of code that may go.
//!
//! A table keeps the module of its targets loaded, and a bio that has not ended its table. But a
//! function that gets a bio may end it, and go on. If it runs in a task, nothing waits for it then:
//! `free_module()` in `kernel/module/main.c` waits for interrupts only. So C calls none of these
//! functions itself. It calls what is here, which is not generic, hence code of this library, and
//! which calls the function in a read-side section of SRCU. Before the module goes, [`free()`] waits
//! for these sections.
//!
//! The library stays as long as modules that use it. When it goes itself, it waits for the tasks that
//! are at their last instructions here, see [`wait_for_tails()`].

use kernel::{
    container_of,
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::static_lock_class,
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    block::dm::{
        bio::per_bio::Head,
        submit::sorted::Sends, //
    }, //
};

/// The functions of a target that get bios and may end them.
pub(super) struct Functions {
    /// What `target_type.end_io` is for.
    ///
    /// Not to be called but as that, with the same arguments.
    pub(super) end_io: unsafe extern "C" fn(
        *mut bindings::dm_target,
        *mut bindings::bio,
        *mut bindings::blk_status_t,
    ) -> c_int,
    /// Takes back a clone, whose `bi_private` is the [`Head`] of its bio.
    pub(super) end_clone: unsafe fn(*mut bindings::bio),
    /// Runs the work of a bio.
    pub(super) run: unsafe fn(NonNull<Head>),
    /// Sends the clones of a list of bios, the newest first.
    pub(super) send: unsafe fn(NonNull<Head>),
}

/// A target type.
///
/// # Invariants
///
/// `sections` is initialised.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(in crate::block::dm) struct TargetType {
    raw: Opaque<bindings::target_type>,
    #[pin]
    sections: Opaque<bindings::srcu_struct>,
    functions: Functions,
}

impl TargetType {
    /// Allocates a target type, for [`free()`].
    pub(super) fn new(raw: bindings::target_type, functions: Functions) -> Result<NonNull<Self>> {
        let this = KBox::try_pin_init(
            try_pin_init!(Self {
                raw: Opaque::new(raw),
                // INVARIANT: It is initialised if this closure returns `Ok`.
                sections <- Opaque::try_ffi_init(|slot| {
                    // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`. Name
                    // and key are the library's own, which goes after all target types.
                    to_result(unsafe {
                        bindings::init_srcu_struct_fast_with_key(
                            slot,
                            c"kscale_target".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        )
                    })
                }),
                functions,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: `free()` treats it as pinned.
        let this = KBox::leak(unsafe { Pin::into_inner_unchecked(this) });
        Ok(NonNull::from(this))
    }

    /// Returns what device mapper registers.
    ///
    /// # Safety
    ///
    /// `this` must be from [`TargetType::new()`], and not freed.
    pub(super) unsafe fn raw(this: NonNull<Self>) -> *mut bindings::target_type {
        // SAFETY: By this function's contract.
        Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).raw })
    }

    /// Calls `func` with the functions, in a section that [`free()`] waits for.
    ///
    /// To be inlined into functions of this library that are not generic.
    ///
    /// # Safety
    ///
    /// `this` must be from [`TargetType::new()`], and not freed until this has called `func`: there
    /// must be a bio of a target of it that has not ended then.
    #[inline(always)]
    unsafe fn call<R>(this: NonNull<Self>, func: impl FnOnce(&Functions) -> R) -> R {
        // SAFETY: By this function's contract.
        let sections = Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).sections });

        // SAFETY: It is initialised by the type invariants.
        let section = unsafe { bindings::srcu_read_lock_fast(sections) };
        // SAFETY: By this function's contract, and as `free()` waits from now on.
        let result = func(unsafe { &(*this.as_ptr()).functions });
        // SAFETY: The section was entered above, by this task or interrupt. Its end is the last
        // access to `sections`.
        unsafe { bindings::srcu_read_unlock_fast(sections, section) };
        result
    }
}

#[pinned_drop]
impl PinnedDrop for TargetType {
    fn drop(self: Pin<&mut Self>) {
        let sections = self.sections.get();

        // SAFETY: It is initialised by the type invariants.
        unsafe { bindings::synchronize_srcu(sections) };
        // SAFETY: As above. There is no section left, no callback, and no grace period that goes on:
        // nobody else asks for one.
        unsafe { bindings::cleanup_srcu_struct(sections) };
    }
}

/// Unregisters a target type.
///
/// # Safety
///
/// `this` must be from [`TargetType::new()`], and registered.
pub(super) unsafe fn unregister(this: NonNull<c_void>) {
    // SAFETY: By this function's contract.
    unsafe { bindings::dm_unregister_target(TargetType::raw(this.cast())) };
}

/// Frees a target type, when no function of its targets runs any more.
///
/// # Safety
///
/// `this` must be from [`TargetType::new()`], and not registered. No table may use it. It may not be
/// used again.
pub(super) unsafe fn free(this: NonNull<c_void>) {
    let this = this.cast::<TargetType>();
    // SAFETY: `new()` leaked such a box, and nobody but the functions that it waits for has a pointer
    // to it, by this function's contract. It is not moved before it is dropped.
    drop(unsafe { KBox::from_raw(this.as_ptr()) });
}

/// Waits until no task is about to return from a function of this module.
///
/// After the end of its section a task may be preempted, and still return here later. Where the
/// kernel has no such grace period, `CONFIG_TASKS_RCU`, this is one of RCU.
pub(crate) fn wait_for_tails() {
    // SAFETY: Has no preconditions but to be called in process context, as when modules go.
    unsafe { bindings::synchronize_rcu_tasks() };
}

/// What `target_type.end_io` is for targets with [`Target::end_io()`](crate::block::dm::Target::end_io).
///
/// # Safety
///
/// Device mapper must call this as `target_type.end_io` of a [`TargetType`].
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn end_io(
    ti: *mut bindings::dm_target,
    bio: *mut bindings::bio,
    error: *mut bindings::blk_status_t,
) -> c_int {
    // SAFETY: The target is alive, as its bio has not ended. Its type is at the beginning of a
    // `TargetType`, by this function's contract.
    let this = unsafe { NonNull::new_unchecked((*ti).type_.cast::<TargetType>()) };
    // SAFETY: As above. The arguments are those of `target_type.end_io`.
    unsafe { TargetType::call(this, |functions| (functions.end_io)(ti, bio, error)) }
}

/// What `bi_end_io` is for clones.
///
/// # Safety
///
/// The block layer must call this for a clone whose `bi_private` is the [`Head`] of a bio that has
/// not ended, and which `end_clone` may be called for.
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn end_clone(clone: *mut bindings::bio) {
    // SAFETY: By this function's contract.
    let head = unsafe { (*clone).bi_private.cast::<Head>() };
    // SAFETY: As above.
    let this = unsafe { (*head).target_type };
    // SAFETY: As above.
    unsafe { TargetType::call(this, |functions| (functions.end_clone)(clone)) };
}

/// What the work of a bio runs.
///
/// # Safety
///
/// The workqueue core must call this for the `work` of a [`Head`] of a bio that has not ended, and
/// which `run` may be called for.
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn run(work: *mut bindings::work_struct) {
    let work: *mut Opaque<bindings::work_struct> = work.cast();
    // SAFETY: By this function's contract.
    let head = unsafe { NonNull::new_unchecked(container_of!(work, Head, work)) };
    // SAFETY: As above.
    let this = unsafe { head.as_ref().target_type };
    // SAFETY: As above.
    unsafe { TargetType::call(this, |functions| (functions.run)(head)) };
}

/// What the work of a [`SendQueue`](crate::block::dm::SendQueue) runs.
///
/// # Safety
///
/// The workqueue core must call this for the `work` of a [`Sends`].
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn send(work: *mut bindings::work_struct) {
    // SAFETY: By this function's contract.
    let Some(head) = (unsafe { Sends::take(work) }) else {
        return;
    };
    // SAFETY: The bio waits for its clone to be sent, so it has not ended.
    let this = unsafe { head.as_ref().target_type };
    // SAFETY: As above. The list was just taken.
    unsafe { TargetType::call(this, |functions| (functions.send)(head)) };
}
