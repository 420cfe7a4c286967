// SPDX-License-Identifier: GPL-2.0

//! Clones that one worker sends, in the order of their sectors.

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
        bio::per_bio::{
            Head,
            PerBio,
            Ptr, //
        },
        target::{
            target_type,
            Target, //
        }, //
    },
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

/// What a queue of any target has.
///
/// # Invariants
///
/// `work` is initialised, and runs [`target_type::send()`].
#[pin_data]
pub(in crate::block::dm) struct Sends {
    #[pin]
    work: Opaque<bindings::work_struct>,
    list: Llist<Head>,
}

impl Sends {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: It is initialised by the closure.
            work <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`, and stays
                // where it is until the queue that it is put in was dropped.
                unsafe { Self::init_work(slot) };
            }),
            list: Llist::new(),
        })
    }

    /// Initialises `work`.
    ///
    /// A function of its own, as its lock class must be the library's: it is used when the code of
    /// the target may be gone.
    ///
    /// # Safety
    ///
    /// `work` must be valid for writes, and stay where it is while it is queued.
    #[inline(never)]
    unsafe fn init_work(work: *mut bindings::work_struct) {
        // SAFETY: By this function's contract.
        unsafe {
            bindings::init_work_with_key(
                work,
                Some(target_type::send),
                false,
                c"kscale_send".as_char_ptr(),
                static_lock_class!().as_ptr(),
            )
        };
    }

    /// Takes all bios, and returns the newest, which has the others behind it.
    ///
    /// # Safety
    ///
    /// `work` must be that of a `Sends`, which is alive.
    pub(in crate::block::dm) unsafe fn take(
        work: *mut bindings::work_struct,
    ) -> Option<NonNull<Head>> {
        let work: *mut Opaque<bindings::work_struct> = work.cast();
        // SAFETY: By this function's contract.
        let this = unsafe { &*container_of!(work, Self, work) };
        this.list.del_all()
    }
}

/// Sends clones to their devices from one worker, all that wait at once in the order of their
/// sectors, and under a plug.
///
/// Many workers that encrypt at once finish in any order, which costs a disk with heads its time, and
/// the block layer what it could have merged. To put a clone in, see [`CloneBio::submit_in_order()`]:
/// one atomic operation, and none of the locks that dm-crypt has for it.
///
/// [`CloneBio::submit_in_order()`]: crate::block::dm::CloneBio::submit_in_order
///
/// # Invariants
///
/// - The bios of `sends` are those of targets `T`. Each has a clone that is ready to be sent, and was
///   put there by [`SendQueue::push()`].
/// - The work of `sends` is queued to `queue` only.
#[pin_data]
pub struct SendQueue<T: Target> {
    /// Dropped first, which waits for the work of `sends`.
    queue: Workqueue,
    #[pin]
    sends: Sends,
    _target: PhantomData<T>,
}

// SAFETY: A `work_struct` that is not queued may be moved to another task, and bios are `Send`.
unsafe impl<T: Target> Send for SendQueue<T> {}

// SAFETY: The list of `sends` is only accessed atomically, and the work by the workqueue core, which
// takes the locks it needs.
unsafe impl<T: Target> Sync for SendQueue<T> {}

impl<T: Target> SendQueue<T> {
    /// Creates an empty queue, whose worker is one of `queue`.
    ///
    /// Context: Any.
    pub fn new(queue: Workqueue) -> impl PinInit<Self> {
        pin_init!(Self {
            queue,
            sends <- Sends::new(),
            _target: PhantomData,
        })
    }

    /// Has a clone sent.
    ///
    /// # Safety
    ///
    /// The bio must have a clone that is ready to be sent, and its target must not outlive `this`.
    // The queue may be gone before this returns, so it is no reference.
    pub(in crate::block::dm) unsafe fn push(this: NonNull<Self>, mut bio: Ptr<T>) {
        let this = this.as_ptr();
        // SAFETY: `as_raw()` returns no null.
        let node = unsafe { NonNull::new_unchecked(bio.as_raw().cast()) };
        // SAFETY: The bio keeps the target and so the queue, until it is in the list. Then this is
        // not used any more, and nothing in it is promised to stay, as all of it is atomic.
        let list = unsafe { &(*this).sends.list };
        // INVARIANT: By this function's contract.
        let was_empty = list.add(node, |behind| {
            // SAFETY: If this gets to the list, those that were in it are behind it from then on:
            // `push()` gave its pointers to them up. If not, this is not used.
            *bio.next() = behind.map(|behind| unsafe { PerBio::from_head(behind) });
        });
        let _ = bio.into_raw();

        // Who finds the list empty has the worker run, which takes all of it, once each time. So
        // until then the bio is still there, and with it the target and this queue.
        if was_empty {
            // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
            let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
            // SAFETY: The queue is alive, see above.
            let (queue, work) = unsafe { ((*this).queue.as_raw(), &raw const (*this).sends.work) };
            // SAFETY: `work` is initialised, by the type invariants, and the queue is alive, see
            // above. C itself makes sure that it outlives this call (RCU, see `__queue_work()`).
            unsafe { bindings::queue_work_on(cpu, queue, Opaque::cast_into(work)) };
        }
    }

    /// Sends the clones of a list of bios.
    ///
    /// # Safety
    ///
    /// `newest` must be from [`Sends::take()`], of a queue for bios of `T`.
    pub(in crate::block::dm) unsafe fn send(newest: NonNull<Head>) {
        // SAFETY: `push()` gave its pointer up for that in the list, by the type invariants, and the
        // list was emptied, by this function's contract.
        let newest = unsafe { PerBio::<T>::from_head(newest) };
        let mut list = sort_stack(Some(newest));
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
