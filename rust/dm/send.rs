// SPDX-License-Identifier: GPL-2.0

//! Clones that one worker sends, in the order of their sectors.

use kernel::{
    container_of,
    prelude::*,
    sync::static_lock_class,
    types::Opaque, //
};

use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};

use crate::{
    bindings,
    gfp::noio_scope,
    workqueue::Workqueue, //
};

use super::{
    llist::Llist,
    per_bio::{
        PerBio,
        Ptr, //
    },
    sort::{
        sort_stack,
        Node, //
    },
    target::Target, //
};

/// Sends clones to their devices from one worker, all that wait at once in the order of their
/// sectors, and under a plug.
///
/// Many workers that encrypt at once finish in any order, which costs a disk with heads its time, and
/// the block layer what it could have merged. To put a clone in, see [`CloneBio::submit_in_order()`]:
/// one atomic operation, and none of the locks that dm-crypt has for it.
///
/// [`CloneBio::submit_in_order()`]: super::CloneBio::submit_in_order
///
/// # Invariants
///
/// - The nodes of `list` are bios, each of which has a clone that is ready to be sent, and was put
///   there by [`SendQueue::push()`].
/// - `work` is initialised, runs [`SendQueue::run()`], and is queued to `queue` only.
#[pin_data]
pub struct SendQueue<T: Target> {
    /// Dropped first, which waits for `work`.
    queue: Workqueue,
    #[pin]
    work: Opaque<bindings::work_struct>,
    list: Llist<PerBio<T>>,
}

// SAFETY: A `work_struct` that is not queued may be moved to another task, and bios are `Send`.
unsafe impl<T: Target> Send for SendQueue<T> {}

// SAFETY: `list` is only accessed atomically, and `work` by the workqueue core, which takes the locks
// it needs.
unsafe impl<T: Target> Sync for SendQueue<T> {}

impl<T: Target> SendQueue<T> {
    /// Creates an empty queue, whose worker is one of `queue`.
    ///
    /// Context: Any.
    pub fn new(queue: Workqueue) -> impl PinInit<Self> {
        pin_init!(Self {
            queue,
            // INVARIANT: It is initialised by the closure.
            work <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`, and stays
                // where it is until `queue` was dropped.
                unsafe {
                    bindings::init_work_with_key(
                        slot,
                        Some(Self::run),
                        false,
                        c"kscale_send".as_char_ptr(),
                        static_lock_class!().as_ptr(),
                    )
                };
            }),
            // INVARIANT: Holds vacuously.
            list: Llist::new(),
        })
    }

    /// Has a clone sent.
    ///
    /// # Safety
    ///
    /// The bio must have a clone that is ready to be sent, and its target must not outlive `this`.
    // The queue may be gone before this returns, so it is no reference.
    pub(super) unsafe fn push(this: NonNull<Self>, mut bio: Ptr<T>) {
        let this = this.as_ptr();
        // SAFETY: `as_raw()` returns no null.
        let node = unsafe { NonNull::new_unchecked(bio.as_raw()) };
        // SAFETY: The bio keeps the target and so the queue, until it is in the list. Then this is
        // not used any more, and nothing in it is promised to stay, as all of it is atomic.
        let list = unsafe { &(*this).list };
        // INVARIANT: By this function's contract.
        let was_empty = list.add(node, |behind| {
            // SAFETY: If this gets to the list, those that were in it are behind it from then on:
            // `push()` gave its pointers to them up. If not, this is not used.
            *bio.next() = behind.map(|behind| unsafe { PerBio::from_raw(behind.as_ptr()) });
        });
        let _ = bio.into_raw();

        // Who finds the list empty has the worker run, which takes all of it, once each time. So
        // until then the bio is still there, and with it the target and this queue.
        if was_empty {
            // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
            let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
            // SAFETY: The queue is alive, see above.
            let (queue, work) = unsafe { ((*this).queue.as_raw(), &raw const (*this).work) };
            // SAFETY: `work` is initialised, by the type invariants, and the queue is alive, see
            // above. C itself makes sure that it outlives this call (RCU, see `__queue_work()`).
            unsafe { bindings::queue_work_on(cpu, queue, Opaque::cast_into(work)) };
        }
    }

    /// Takes all bios, the newest first.
    fn take(&self) -> Option<Ptr<T>> {
        let first = self.list.del_all();
        // SAFETY: `push()` gave its pointer up for that in the list, by the type invariants, and the
        // list was just emptied.
        first.map(|first| unsafe { PerBio::from_raw(first.as_ptr()) })
    }

    /// Sends what is there.
    ///
    /// # Safety
    ///
    /// The workqueue core must call this for a `work` that [`SendQueue::push()`] queued.
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        let work: *mut Opaque<bindings::work_struct> = work.cast();
        // SAFETY: `push()` queues the `work` field of a `SendQueue<T>`.
        let this = unsafe { container_of!(work, Self, work) };
        // SAFETY: The drop of `queue` waits until this function returned, and it is the first that
        // is dropped. So the memory stays, even if the last bio of the target ends here.
        let mut list = sort_stack(unsafe { &*this }.take());
        let mut plug = MaybeUninit::uninit();

        noio_scope(|| {
            // SAFETY: `plug` is valid for writes, and stays where it is until it is finished.
            unsafe { bindings::blk_start_plug(plug.as_mut_ptr()) };
            while let Some(mut bio) = list.take() {
                list = bio.next().take();
                // SAFETY: It has a clone that is ready, by the type invariants.
                unsafe { bio.submit_clone() };
            }
            // SAFETY: It was started above, by this task.
            unsafe { bindings::blk_finish_plug(plug.as_mut_ptr()) };
        });
    }
}

impl<T: Target> Node for Ptr<T> {
    fn key(&self) -> u64 {
        self.clone_end().sector()
    }

    fn next(&mut self) -> &mut Option<Self> {
        Ptr::next(self)
    }
}
