// SPDX-License-Identifier: GPL-2.0

//! A queue of clones that one worker submits in sector order.

use kernel::{
    container_of,
    prelude::*,
    sync::static_lock_class,
    types::Opaque, //
};

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::dm::{
        bio::{
            head::Head,
            per_bio::{
                PerBio,
                PerBioRef, //
            }, //
        },
        target::{
            target_type,
            Target, //
        }, //
    },
    lib::task_stack,
    mm::gfp::noio_scope,
    sync::workqueue::Workqueue, //
};

use super::{
    llist::Llist,
    sort::{
        sort_stack,
        Node, //
    }, //
};

/// The part of a queue that does not depend on the target.
///
/// # Invariants
///
/// `work` is initialised, and runs [`target_type::submit_clones()`].
#[pin_data]
pub(in crate::block::dm) struct SubmitList {
    #[pin]
    work: Opaque<bindings::work_struct>,
    list: Llist<Head>,
}

impl SubmitList {
    /// Fails with [`EINVAL`] on the stack.
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: The closure initialises `work`.
            work <- Opaque::try_ffi_init(|slot| {
                task_stack::refuse(slot)?;
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`, and is
                // not moved until its queue was dropped.
                unsafe { Self::init_work(slot) };
                Ok::<_, Error>(())
            }),
            list: Llist::new(),
        })
    }

    /// Initialises `work`.
    ///
    /// Not inlined, as its lock class must belong to the library: the class is used when the code
    /// of the target may be gone.
    ///
    /// # Safety
    ///
    /// `work` must be valid for writes, and must not move while it is queued.
    #[inline(never)]
    unsafe fn init_work(work: *mut bindings::work_struct) {
        // SAFETY: By this function's contract.
        unsafe {
            bindings::init_work_with_key(
                work,
                Some(target_type::submit_clones),
                false,
                c"kscale_submit".as_char_ptr(),
                static_lock_class!().as_ptr(),
            )
        };
    }

    /// Takes all bios, and returns the newest, which links to the others.
    ///
    /// # Safety
    ///
    /// `work` must be that of a live `SubmitList`.
    pub(in crate::block::dm) unsafe fn take(
        work: *mut bindings::work_struct,
    ) -> Option<NonNull<Head>> {
        let work: *mut Opaque<bindings::work_struct> = work.cast();
        // SAFETY: By this function's contract.
        let this = unsafe { &*container_of!(work, Self, work) };
        this.list.del_all()
    }
}

/// A queue whose worker submits clones to their devices in sector order, under a plug.
///
/// The worker takes all waiting clones at once, and sorts these.
///
/// Workers that encrypt in parallel finish in any order. That costs seeks on a rotational disk, and
/// merges in the block layer. [`CloneBio::submit_sorted()`] adds a clone with one atomic
/// operation, and without the locks of dm-crypt.
///
/// [`CloneBio::submit_sorted()`]: crate::block::dm::CloneBio::submit_sorted
///
/// # Invariants
///
/// - The bios of `pending` are bios of targets `T`. Each has a clone that is ready for submission,
///   and was added by `SortedSubmitQueue::push()`.
/// - The work of `pending` is queued to `queue` only.
#[pin_data]
pub struct SortedSubmitQueue<T: Target> {
    /// Dropped first. The drop waits for the work of `pending`.
    queue: Workqueue,
    #[pin]
    pending: SubmitList,
    /// Invariant: the bios are those of targets of `T`, not of a subtype.
    _target: PhantomData<fn(T) -> T>,
}

// SAFETY: A `work_struct` that is not queued may be moved to another task, and bios are `Send`.
unsafe impl<T: Target> Send for SortedSubmitQueue<T> {}

// SAFETY: The list of `pending` is only accessed atomically. Only the workqueue core accesses the
// work, under its own locks.
unsafe impl<T: Target> Sync for SortedSubmitQueue<T> {}

impl<T: Target> SortedSubmitQueue<T> {
    /// Creates an empty queue whose work runs on `queue`.
    ///
    /// Fails with [`EINVAL`] on the stack.
    ///
    /// Context: Any context. Never sleeps.
    pub fn new(queue: Workqueue) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            queue,
            pending <- SubmitList::new(),
            _target: PhantomData,
        })
    }

    /// Queues the clone of a bio for submission.
    ///
    /// # Safety
    ///
    /// The bio must have a clone that is ready for submission, and its target must not outlive
    /// `this`.
    // The queue may be gone before `push()` returns, so `this` is not a reference.
    pub(in crate::block::dm) unsafe fn push(this: NonNull<Self>, mut bio: PerBioRef<T>) {
        let this = this.as_ptr();
        // SAFETY: `as_raw()` returns a non-null pointer.
        let node = unsafe { NonNull::new_unchecked(bio.as_raw().cast()) };
        // SAFETY: The bio keeps the target and so the queue alive until the bio is in the list.
        // `add()` does not access the list after that. The reference may dangle then: `Llist` is an
        // atomic, and Rust does not assume that references to atomics stay valid.
        let list = unsafe { &(*this).pending.list };
        // INVARIANT: By this function's contract.
        let was_empty = list.add(node, |behind| {
            // SAFETY: If this node gets into the list, all earlier nodes are behind it from then
            // on: `push()` gave up its pointers to them. Otherwise the value is not used.
            *bio.next() = behind.map(|behind| unsafe { PerBio::from_head(behind) });
        });
        let _ = bio.into_raw();

        // The producer that finds the list empty queues the work, and each run of the work takes
        // all nodes. So until then the bio is alive, and with it the target and this queue.
        if was_empty {
            // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
            let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
            // SAFETY: The queue is alive, see above.
            let (queue, work) =
                unsafe { ((*this).queue.as_raw(), &raw const (*this).pending.work) };
            // SAFETY: `work` is initialised, by the type invariants, and the queue is alive, see
            // above. C itself ensures that the workqueue outlives this call (RCU, see
            // `__queue_work()`).
            unsafe { bindings::queue_work_on(cpu, queue, Opaque::cast_into(work)) };
        }
    }

    /// Submits the clones of a list of bios.
    ///
    /// # Safety
    ///
    /// `newest` must be from [`SubmitList::take()`], of a queue for bios of `T`.
    pub(in crate::block::dm) unsafe fn submit_clones(newest: NonNull<Head>) {
        // SAFETY: `push()` gave up its pointer to each bio in the list, by the type invariants. The
        // list was emptied, by this function's contract.
        let newest = unsafe { PerBio::<T>::from_head(newest) };
        let mut list = sort_stack(Some(newest));
        let mut plug = MaybeUninit::uninit();

        noio_scope(|| {
            // SAFETY: `plug` is valid for writes, and does not move until it is finished.
            unsafe { bindings::blk_start_plug(plug.as_mut_ptr()) };
            while let Some(mut bio) = list.take() {
                list = bio.next().take();
                // SAFETY: The bio has a clone that is ready, by the type invariants.
                unsafe { bio.submit_clone() };
            }
            // SAFETY: It was started above, by this task.
            unsafe { bindings::blk_finish_plug(plug.as_mut_ptr()) };
        });
    }
}

impl<T: Target> Node for PerBioRef<T> {
    fn key(&self) -> u64 {
        // SAFETY: Only the bios of a queue are sorted, whose clones are ready.
        unsafe { self.clone_end() }.sector()
    }

    fn next(&mut self) -> &mut Option<Self> {
        PerBioRef::next(self)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_sorted)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_not_on_the_stack() {
        pin_init::stack_try_pin_init!(let list: SubmitList = SubmitList::new());

        assert!(matches!(list, Err(error) if error == EINVAL));
    }
}
