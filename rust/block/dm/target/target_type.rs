// SPDX-License-Identifier: GPL-2.0

//! Registered target types, and calls into code of a module that may be unloaded.
//!
//! A table keeps the modules of its targets loaded, and a bio in flight keeps its table. But a
//! function that gets a bio may end the bio and continue. If it runs in a task, nothing waits for
//! it: `free_module()` in `kernel/module/main.c` waits for interrupts only. So C never calls such a
//! function directly. C calls the functions of this file, which are not generic and hence code of
//! this library. They call the function of the target in an SRCU read-side critical section.
//! [`Registered::free()`] waits for these sections before the module is freed.
//!
//! Modules that use the library keep it loaded. When the library itself is unloaded, it waits for
//! tasks that execute their last instructions here, see [`synchronize_rcu_tasks()`].

use kernel::{
    container_of,
    error::to_result,
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*,
    str::CString,
    sync::static_lock_class,
    types::Opaque, //
};

use core::{
    mem::ManuallyDrop,
    ops::Range,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::dm::{
        bio::{
            head::{
                Head,
                OtherWork,
                WorkFunction, //
            },
            running::{
                self,
                Running, //
            }, //
        },
        submit::sorted::SubmitList, //
    },
    module::code, //
};

use super::{
    delayed_work::Shared,
    Target, //
};

/// The functions of a target that C calls through a function of this library.
pub(super) struct Functions {
    /// Implements `target_type.status`.
    ///
    /// Only `kscale_target_status()` in `rust/block/dm/target.c` may call it.
    pub(super) status:
        unsafe extern "C" fn(*mut bindings::dm_target, c_uint, c_uint, *mut c_char, c_uint),
    /// Implements `target_type.iterate_devices`.
    ///
    /// Only `kscale_target_iterate_devices()` in `rust/block/dm/target.c` may call it.
    pub(super) iterate_devices: unsafe extern "C" fn(
        *mut bindings::dm_target,
        *const bindings::kscale_callout,
        *mut c_void,
    ) -> c_int,
    /// Implements `target_type.end_io`.
    ///
    /// Must only be called as `target_type.end_io`, with the same arguments.
    pub(super) end_io: unsafe extern "C" fn(
        *mut bindings::dm_target,
        *mut bindings::bio,
        *mut bindings::blk_status_t,
    ) -> c_int,
    /// Handles the completion of a clone whose `bi_private` is the [`Head`] of its bio.
    pub(super) end_clone: unsafe fn(*mut bindings::bio),
    /// Handles the completion of a child whose `bi_private` is the [`Head`] of its parent.
    pub(super) end_child: unsafe fn(*mut bindings::bio),
    /// Runs the work of a bio.
    pub(super) run: unsafe fn(NonNull<Head>),
    /// Submits the clones of a list of bios, the newest first.
    pub(super) submit_clones: unsafe fn(NonNull<Head>),
    /// Runs the delayed work of a target, the `Inner` that the argument points to.
    pub(super) delayed_work: unsafe fn(NonNull<c_void>),
}

/// A target type.
///
/// # Invariants
///
/// `sections` is initialised.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(in crate::block::dm) struct TargetType {
    raw: Opaque<bindings::kscale_target_type>,
    #[pin]
    sections: Opaque<bindings::srcu_struct>,
    functions: Functions,
    /// The code of the module that tables with the target keep loaded.
    code: Range<usize>,
}

/// Initialises the `srcu_struct` of a target type.
///
/// The initialiser of a [`TargetType`] is compiled into the module that registers the target.
/// Lockdep keeps the name for as long as the library has the key, so the name must not be that
/// module's.
///
/// # Safety
///
/// `slot` must be valid for writes.
#[inline(never)]
unsafe fn init_sections(slot: *mut bindings::srcu_struct) -> Result {
    // SAFETY: By this function's contract. Name and key belong to the library, which outlives all
    // target types: this function is neither generic nor inlined.
    to_result(unsafe {
        bindings::init_srcu_struct_fast_with_key(
            slot,
            c"kscale_target".as_char_ptr(),
            static_lock_class!().as_ptr(),
        )
    })
}

impl TargetType {
    /// Creates a target type.
    pub(super) fn new(
        raw: bindings::target_type,
        functions: Functions,
    ) -> impl PinInit<Self, Error> {
        // SAFETY: The module that registers the target is loaded.
        let code = unsafe { code::code_of(raw.module) };
        try_pin_init!(Self {
            raw: Opaque::new(bindings::kscale_target_type {
                raw,
                status: Some(functions.status),
                iterate_devices: Some(functions.iterate_devices),
            }),
            // INVARIANT: `sections` is initialised if this closure returns `Ok`.
            sections <- Opaque::try_ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { init_sections(slot) }
            }),
            functions,
            code,
        })
    }

    /// Returns whether the function at `address` is code of the module that tables with the target
    /// keep loaded.
    ///
    /// A bio of the target may be passed to another module, whose functions no table keeps.
    #[inline]
    pub(in crate::block::dm) fn has_code(&self, address: usize) -> bool {
        self.code.contains(&address)
    }

    /// Returns the `struct target_type` that device mapper registers.
    ///
    /// # Safety
    ///
    /// `this` must be from [`Registered::alloc()`], and not freed.
    pub(super) unsafe fn raw(this: NonNull<Self>) -> *mut bindings::target_type {
        // SAFETY: By this function's contract.
        let raw = Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).raw });
        // SAFETY: As above.
        unsafe { &raw mut (*raw).raw }
    }

    /// Calls `func` with the functions, in a read-side critical section that
    /// [`Registered::free()`] waits for.
    ///
    /// Must be inlined into functions of this library that are not generic.
    ///
    /// # Safety
    ///
    /// `this` must be from [`Registered::alloc()`], and must not be freed before `call` has called
    /// `func`: a bio of a target of this type must not have ended before that.
    #[inline(always)]
    unsafe fn call<R>(this: NonNull<Self>, func: impl FnOnce(&Functions) -> R) -> R {
        // SAFETY: By this function's contract.
        let sections = Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).sections });

        // SAFETY: `sections` is initialised by the type invariants.
        let section = unsafe { bindings::srcu_read_lock_fast(sections) };
        // SAFETY: By this function's contract, and `free()` waits for the section from here on.
        let result = func(unsafe { &(*this.as_ptr()).functions });
        // SAFETY: The section was entered above, by this task or interrupt.
        // `srcu_read_unlock_fast()` is the last access to `sections`.
        unsafe { bindings::srcu_read_unlock_fast(sections, section) };
        result
    }
}

#[pinned_drop]
impl PinnedDrop for TargetType {
    fn drop(self: Pin<&mut Self>) {
        let sections = self.sections.get();

        // SAFETY: `sections` is initialised by the type invariants.
        unsafe { bindings::synchronize_srcu(sections) };
        // SAFETY: As above. There is no section left, no callback, and no grace period in progress:
        // nothing else starts one.
        unsafe { bindings::cleanup_srcu_struct(sections) };
    }
}

/// Unregisters a target type.
///
/// # Safety
///
/// `this` must be from [`Registered::alloc()`], and registered.
pub(super) unsafe fn unregister(this: NonNull<c_void>) {
    // SAFETY: By this function's contract.
    unsafe { bindings::dm_unregister_target(TargetType::raw(this.cast())) };
}

/// A target type with the data of its registration.
#[repr(C)]
#[pin_data]
pub(super) struct Registered<T: Target> {
    /// First, so that a pointer to it is also a pointer to the whole. Its drop waits for the
    /// functions of the targets.
    #[pin]
    target_type: TargetType,
    /// Dropped by [`Registered::release()`]: functions of targets do not use it, and may wait for a
    /// guard that it owns.
    data: ManuallyDrop<T::ModuleData>,
    /// The name of the type in C. That of the caller may be in a module that is unloaded earlier.
    _name: CString,
}

impl<T: Target> Registered<T> {
    /// Allocates a target type with a copy of the name. [`Registered::free()`] frees both.
    pub(super) fn alloc(
        raw: bindings::target_type,
        name: &CStr,
        functions: Functions,
        data: T::ModuleData,
    ) -> Result<NonNull<TargetType>> {
        let name = CString::try_from(name)?;
        let raw = bindings::target_type {
            name: name.as_char_ptr(),
            ..raw
        };
        let this = KBox::try_pin_init(
            try_pin_init!(Self {
                target_type <- TargetType::new(raw, functions),
                data: ManuallyDrop::new(data),
                _name: name,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: `free()` treats it as pinned.
        let this = KBox::leak(unsafe { Pin::into_inner_unchecked(this) });
        Ok(NonNull::from(this).cast())
    }

    /// Returns the data of the registration.
    ///
    /// # Safety
    ///
    /// `this` must be from [`Registered::<T>::alloc()`], and must not be freed during `'a`.
    pub(super) unsafe fn data<'a>(this: NonNull<TargetType>) -> &'a T::ModuleData {
        // SAFETY: By this function's contract. The target type is the first field.
        unsafe { &(*this.cast::<Self>().as_ptr()).data }
    }

    /// Drops the data of a target type.
    ///
    /// # Safety
    ///
    /// `this` must be from [`Registered::<T>::alloc()`], and not registered. No table may use it.
    /// It must only be used for [`free()`](Self::free) from now on.
    pub(super) unsafe fn release(this: NonNull<c_void>) {
        let this = this.cast::<Self>();
        // SAFETY: `alloc()` leaked such a box. By this function's contract, only functions of bios
        // may still run, and these use no data. It is dropped once, here.
        unsafe { ManuallyDrop::drop(&mut (*this.as_ptr()).data) };
    }

    /// Frees a target type after all functions of its targets have returned.
    ///
    /// # Safety
    ///
    /// [`release()`](Self::release) must have been called. `this` must not be used again.
    pub(super) unsafe fn free(this: NonNull<c_void>) {
        let this = this.cast::<Self>();
        // SAFETY: `alloc()` leaked such a box. By this function's contract, only the functions that
        // the drop of `target_type` waits for have a pointer to it. It is not moved before it is
        // dropped.
        drop(unsafe { KBox::from_raw(this.as_ptr()) });
    }
}

/// Waits for tasks that are about to return from a function of this module.
///
/// After the end of its section, a task may be preempted and return to this module later. Without
/// `CONFIG_TASKS_RCU`, `synchronize_rcu_tasks()` is `synchronize_rcu()`.
pub(crate) fn synchronize_rcu_tasks() {
    // SAFETY: The only precondition is process context, and modules are unloaded in process
    // context.
    unsafe { bindings::synchronize_rcu_tasks() };
}

/// `target_type.end_io` of targets with [`Target::end_io()`](crate::block::dm::Target::end_io).
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
    // SAFETY: The target is alive, as its bio has not ended. Its type is the first field of a
    // `TargetType`, by this function's contract.
    let this = unsafe { NonNull::new_unchecked((*ti).type_.cast::<TargetType>()) };
    // SAFETY: As above. The arguments are those of `target_type.end_io`.
    unsafe { TargetType::call(this, |functions| (functions.end_io)(ti, bio, error)) }
}

/// `bi_end_io` of clones.
///
/// # Safety
///
/// The block layer must call this for a clone whose `bi_private` is the [`Head`] of a bio that has
/// not ended. Calling `end_clone` for the clone must be allowed.
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn end_clone(clone: *mut bindings::bio) {
    // SAFETY: By this function's contract.
    let head = unsafe { (*clone).bi_private.cast::<Head>() };
    // SAFETY: As above.
    let this = unsafe { (*head).target_type };
    // SAFETY: As above.
    unsafe { TargetType::call(this, |functions| (functions.end_clone)(clone)) };
}

/// `bi_end_io` of children.
///
/// # Safety
///
/// As for [`end_clone()`], with the parent as the bio and `end_child` for `end_clone`.
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn end_child(clone: *mut bindings::bio) {
    // SAFETY: By this function's contract.
    let head = unsafe { (*clone).bi_private.cast::<Head>() };
    // SAFETY: As above.
    let this = unsafe { (*head).target_type };
    // SAFETY: As above.
    unsafe { TargetType::call(this, |functions| (functions.end_child)(clone)) };
}

/// The work functions of a bio. All do the same, see [`running`].
pub(in crate::block::dm) static RUN: [WorkFunction; running::FUNCTIONS] = [
    run::<0>, run::<1>, run::<2>, run::<3>, run::<4>, run::<5>, run::<6>, run::<7>,
];

/// A work function of a bio: that with the number in [`RUN`], which makes it code of this library.
///
/// # Safety
///
/// The workqueue core must call this for the `work` of a [`Head`] of a bio that has not ended.
/// Calling `run` for the bio must be allowed.
#[inline(never)]
unsafe extern "C" fn run<const NUMBER: usize>(work: *mut bindings::work_struct) {
    let _running = Running::new(work.addr(), NUMBER);
    let work: *mut Opaque<bindings::work_struct> = work.cast();
    // SAFETY: By this function's contract.
    let head = unsafe { NonNull::new_unchecked(container_of!(work, Head, work)) };
    // SAFETY: As above.
    unsafe { run_head(head) };
}

/// The work function of an [`OtherWork`].
///
/// # Safety
///
/// The workqueue core must call this for an [`OtherWork`] of a bio that has not ended. Calling
/// `run` for the bio must be allowed.
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn run_other(work: *mut bindings::work_struct) {
    // SAFETY: By this function's contract. No work is pending in an item that runs.
    let work = unsafe { OtherWork::from_work(work) };
    // SAFETY: By this function's contract.
    unsafe { run_head(work.head()) };
    // Freed last: until then no other item has its address.
    drop(work);
}

/// Runs the function of a bio.
///
/// # Safety
///
/// The bio with this head must not have ended. Calling `run` for it must be allowed.
#[inline]
unsafe fn run_head(head: NonNull<Head>) {
    // SAFETY: By this function's contract.
    let this = unsafe { head.as_ref().target_type };
    // SAFETY: As above.
    unsafe { TargetType::call(this, |functions| (functions.run)(head)) };
}

/// The work function of a [`SortedSubmitQueue`](crate::block::dm::SortedSubmitQueue).
///
/// # Safety
///
/// The workqueue core must call this for the `work` of a [`SubmitList`].
#[inline(never)]
pub(in crate::block::dm) unsafe extern "C" fn submit_clones(work: *mut bindings::work_struct) {
    // SAFETY: By this function's contract.
    let Some(head) = (unsafe { SubmitList::take(work) }) else {
        return;
    };
    // SAFETY: The clone of the bio is not yet submitted, so the bio has not ended.
    let this = unsafe { head.as_ref().target_type };
    // SAFETY: As above. The list was just taken.
    unsafe { TargetType::call(this, |functions| (functions.submit_clones)(head)) };
}

/// The work function of a [`DelayedWork`](crate::block::dm::DelayedWork).
///
/// # Safety
///
/// The workqueue core must call this for the `work` of a [`Shared`].
#[inline(never)]
pub(super) unsafe extern "C" fn run_delayed_work(work: *mut bindings::work_struct) {
    // SAFETY: By this function's contract.
    let Some((this, target)) = (unsafe { Shared::target_of(work) }) else {
        return;
    };
    // SAFETY: The target lives until this function has returned, and its table keeps its type, by
    // the invariants of `Shared`.
    unsafe { TargetType::call(this, |functions| (functions.delayed_work)(target)) };
}
