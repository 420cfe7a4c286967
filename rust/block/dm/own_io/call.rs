// SPDX-License-Identifier: GPL-2.0

//! Asynchronous calls of a client.
//!
//! A call owns its function, with all that the function has captured. The I/O is in flight until
//! the function has returned, so the target waits for it. What then still runs is code of this
//! library.

use kernel::{
    container_of,
    ffi::c_void,
    prelude::*,
    sync::{
        static_lock_class,
        Arc, //
    },
    types::Opaque, //
};

use core::{
    mem::forget,
    ptr::NonNull, //
};

use crate::{
    bindings,
    mm::gfp::noio_scope,
    module::code, //
};

use super::client::{
    InFlight,
    RawClient,
    Shared, //
};

/// The part of a [`Call`] that does not depend on its function.
#[repr(C)]
struct Head<C: RawClient> {
    shared: Arc<Shared<C>>,
    /// Runs the function. Code of the module of the target.
    run: unsafe fn(NonNull<Head<C>>, Results),
    /// Set by [`finish_later()`].
    results: Results,
    /// Initialised by [`finish_later()`].
    work: Opaque<bindings::work_struct>,
}

/// A call in flight.
///
/// # Invariants
///
/// The call is counted in `in_flight` of `head.shared`.
#[repr(C)]
struct Call<C: RawClient, F> {
    /// First, so that a pointer to it is also a pointer to the whole.
    head: Head<C>,
    func: F,
}

/// The two results of C.
pub(super) type Results = (usize, usize);

/// Returns the context of a call that C ends with [`finish()`], which runs `func`. The I/O is in
/// flight until then. The caller keeps `in_flight` until C has started the I/O: C uses the client
/// after the I/O may have ended.
///
/// Otherwise runs `func` with an error: [`EINVAL`] if `func` is not code of the module of the
/// target, which the table keeps loaded, or [`ENOMEM`].
pub(super) fn begin<C: RawClient, F>(
    in_flight: &InFlight<'_, C>,
    shared: &Arc<Shared<C>>,
    func: F,
) -> Option<*mut c_void>
where
    F: FnOnce(Result<Results>) + Send + 'static,
{
    let run: unsafe fn(NonNull<Head<C>>, Results) = run::<C, F>;
    // SAFETY: The table of the target, whose client is open, keeps the module loaded.
    if !unsafe { code::has_code(shared.module(), &[run as usize]) } {
        func(Err(EINVAL));
        return None;
    }
    let Ok(call) = noio_scope(|| KBox::<Call<C, F>>::new_uninit(GFP_KERNEL)) else {
        func(Err(ENOMEM));
        return None;
    };
    let head = Head {
        shared: shared.clone(),
        run,
        results: (0, 0),
        work: Opaque::uninit(),
    };
    // INVARIANT: Counted by `again()`.
    let call = KBox::write(call, Call { head, func });
    forget(in_flight.again());
    Some(KBox::into_raw(call).cast())
}

/// Runs the function of a call.
///
/// # Safety
///
/// `head` must be that of a `Call<C, F>` of [`begin()`], which is not used again.
unsafe fn run<C: RawClient, F: FnOnce(Result<Results>)>(head: NonNull<Head<C>>, results: Results) {
    // SAFETY: By this function's contract. The head is the first field.
    let call = unsafe { KBox::from_raw(head.cast::<Call<C, F>>().as_ptr()) };
    let Call { head, func } = KBox::into_inner(call);
    drop(head);
    func(Ok(results));
}

/// Ends a call. `is_worker` is whether this is the only worker of the client.
///
/// Must be inlined into functions of this library that are not generic.
///
/// # Safety
///
/// `context` must be from [`begin()`] with the same `C`. Must be called once.
#[inline(always)]
pub(super) unsafe fn finish<C: RawClient>(context: *mut c_void, results: Results, is_worker: bool) {
    // SAFETY: `begin()` returned the pointer, which is not NULL.
    let head = unsafe { NonNull::new_unchecked(context.cast::<Head<C>>()) };
    // SAFETY: By this function's contract, the call still exists.
    let (shared, run) = unsafe { (head.as_ref().shared.clone(), head.as_ref().run) };

    // SAFETY: `begin()` set the function of the call, which is not used again.
    let run = || unsafe { run(head, results) };
    if is_worker {
        shared.as_worker(run);
    } else {
        run();
    }
    // SAFETY: The call was counted, by the type invariants, and has ended. The function has
    // returned, so the module may be freed from now on.
    unsafe { shared.leave() };
}

/// The function of a work item.
type WorkFunc = unsafe extern "C" fn(*mut bindings::work_struct);

/// Ends a call in softirq context, by `func`.
///
/// # Safety
///
/// As for [`finish()`]. `func` must call [`finish_queued()`] with the same `C`.
pub(super) unsafe fn finish_later<C: RawClient>(
    context: *mut c_void,
    results: Results,
    func: WorkFunc,
) {
    let head: *mut Head<C> = context.cast();
    // SAFETY: By this function's contract, the call still exists, and nothing else uses it.
    unsafe { (*head).results = results };
    // SAFETY: As above.
    let work = Opaque::cast_into(unsafe { &raw const (*head).work });
    // SAFETY: The call exists until `func` has run.
    unsafe { queue(work, func) };
}

/// Queues a work item that runs `func` in softirq context.
///
/// # Safety
///
/// `work` must be memory for a work item, which is valid until `func` has run.
#[inline(never)]
unsafe fn queue(work: *mut bindings::work_struct, func: WorkFunc) {
    // SAFETY: By this function's contract. The name and the class are static.
    unsafe {
        bindings::init_work_with_key(
            work,
            Some(func),
            false,
            c"dm::own_io".as_char_ptr(),
            static_lock_class!().as_ptr(),
        )
    };
    // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
    let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
    // SAFETY: `work` was initialised above. The kernel never frees the workqueue.
    unsafe { bindings::queue_work_on(cpu, bindings::system_bh_wq, work) };
}

/// Ends a call of [`finish_later()`].
///
/// # Safety
///
/// The workqueue core must have called the `func` of [`finish_later()`] with `work`. Must be called
/// once, with the same `C`.
#[inline(always)]
pub(super) unsafe fn finish_queued<C: RawClient>(work: *mut bindings::work_struct) {
    let work: *mut Opaque<bindings::work_struct> = work.cast();
    // SAFETY: By this function's contract.
    let head: *mut Head<C> = unsafe { container_of!(work, Head<C>, work) };
    // SAFETY: The call exists until it is finished below.
    let results = unsafe { (*head).results };
    // SAFETY: By the contract of `finish_later()`.
    unsafe { finish::<C>(head.cast(), results, false) };
}
