// SPDX-License-Identifier: GPL-2.0

//! The part of the per-bio data that does not depend on the target, and the work items of bios.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    sync::static_lock_class,
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    block::dm::target::target_type::{
        self,
        TargetType, //
    }, //
};

use super::running;

/// The first field of the per-bio data, independent of the target.
#[repr(C)]
pub(in crate::block::dm) struct Head {
    /// The type of the target.
    pub(in crate::block::dm) target_type: NonNull<TargetType>,
    pub(in crate::block::dm) work: Opaque<bindings::work_struct>,
}

impl Head {
    /// Queues `run` of the target type with the bio.
    ///
    /// Not generic: the lock class of the work is used when the code of the target may be gone.
    ///
    /// # Safety
    ///
    /// - `this` must be the head of a bio that has not left its target. The bio must not be used
    ///   until `run` is called, and calling `run` with it must be allowed.
    /// - `queue` must live until then. It must run work in softirq context if and only if `is_bh`
    ///   is true.
    #[inline(never)]
    pub(super) unsafe fn queue_on(
        this: NonNull<Self>,
        queue: *mut bindings::workqueue_struct,
        is_bh: bool,
    ) {
        // Lockdep reports work that runs in both contexts as a deadlock: a flush could wait for the
        // work that it interrupts. Nothing flushes this work; waiters only wait for the end of its
        // bio.
        let (of_tasks, of_softirqs) = (static_lock_class!(), static_lock_class!());
        let key = if is_bh { of_softirqs } else { of_tasks };
        // SAFETY: By this function's contract.
        let own = Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).work });
        // This may be in a function for the same address, which waits for this work.
        let number = running::unused(own.addr());
        let run = number.and_then(|number| target_type::RUN.get(number).copied());
        let (work, run) = if let Some(run) = run {
            (own, run)
        } else if let Ok(work) = OtherWork::alloc(this) {
            (work, target_type::run_other as WorkFunction)
        } else {
            let [first, ..] = target_type::RUN;
            (own, first)
        };
        // SAFETY:
        // - `work` is memory for a work item, and no work is pending in it: otherwise the bio would
        //   not be owned here. Or it was just allocated.
        // - It does not move until `run()` was called.
        unsafe {
            bindings::init_work_with_key(
                work,
                Some(run),
                false,
                c"kscale_per_bio".as_char_ptr(),
                key.as_ptr(),
            )
        };
        // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
        let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
        // SAFETY: `work` was initialised above, and `queue` is alive by this function's contract.
        unsafe { bindings::queue_work_on(cpu, queue, work) };
    }
}

/// The type of the function of a work item.
pub(in crate::block::dm) type WorkFunction = unsafe extern "C" fn(*mut bindings::work_struct);

/// A work item of a bio that has its own memory, until its function has returned.
#[repr(C)]
pub(in crate::block::dm) struct OtherWork {
    /// First, so that a pointer to it is also a pointer to the whole.
    work: Opaque<bindings::work_struct>,
    head: NonNull<Head>,
}

impl OtherWork {
    /// Allocates an item, which [`from_work()`](Self::from_work) frees.
    ///
    /// Fails with [`ENOMEM`].
    fn alloc(head: NonNull<Head>) -> Result<*mut bindings::work_struct> {
        let work = Opaque::uninit();
        let this = KBox::new(Self { work, head }, GFP_ATOMIC | __GFP_NOWARN)?;
        Ok(KBox::into_raw(this).cast())
    }

    /// Returns the item.
    ///
    /// # Safety
    ///
    /// `work` must be from [`alloc()`](Self::alloc). No work may be pending in it, and it must not
    /// be used again.
    pub(in crate::block::dm) unsafe fn from_work(work: *mut bindings::work_struct) -> KBox<Self> {
        // SAFETY: `alloc()` leaked the box, and by this function's contract nothing else uses it.
        unsafe { KBox::from_raw(work.cast()) }
    }

    /// Returns the head of the bio.
    pub(in crate::block::dm) fn head(&self) -> NonNull<Head> {
        self.head
    }
}
