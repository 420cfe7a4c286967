// SPDX-License-Identifier: GPL-2.0

//! Per-bio data: what the wrapper keeps beside each bio that device mapper clones for a target.
//!
//! The memory is device mapper's, `dm_per_bio_data()` in `drivers/md/dm.c`: recycled as it is, so
//! it is written afresh in `map` and dropped where the bio leaves the target.

use kernel::{
    prelude::*,
    sync::static_lock_class,
    types::Opaque, //
};

use core::{
    mem::{
        align_of,
        needs_drop, //
    },
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult,
            Op,
            Segments,
            SegmentsMut,
            Tags, //
        },
        dm::target::{
            devices::Device,
            target_type::{
                self,
                TargetType, //
            },
            vtable::Inner,
            Target, //
        }, //
    },
    mm::gfp::noio_scope,
    sync::workqueue::Workqueue, //
};

use super::{
    clone::CloneEnd,
    irq::IrqBio,
    owned::Bio, //
};

/// What a work item runs.
pub(super) enum Func<T: Target> {
    /// In process context.
    Task(fn(Bio<T>)),
    /// In softirq context.
    Soft(fn(IrqBio<T>)),
    /// As [`Func::Soft`]: the end of the bio.
    End,
}

impl<T: Target> Clone for Func<T> {
    fn clone(&self) -> Self {
        *self
    }
}

// Derived, it would only be for a `T` that is.
impl<T: Target> Copy for Func<T> {}

/// What the per-bio data of a bio of any target begins with.
#[repr(C)]
pub(in crate::block::dm) struct Head {
    /// The type of the target.
    pub(in crate::block::dm) target_type: NonNull<TargetType>,
    pub(in crate::block::dm) work: Opaque<bindings::work_struct>,
}

impl Head {
    /// Has a queue call `run` of the target type with the bio.
    ///
    /// Not generic, as the lock class of the work is used when the code of the target may be gone.
    ///
    /// # Safety
    ///
    /// - `this` must be that of a bio that has not left its target, which nobody uses until `run` is
    ///   called, and `run` must be fit to be called with it.
    /// - `queue` must live until then. It must be one that runs in softirq context if and only if
    ///   `is_bh` says so.
    #[inline(never)]
    unsafe fn queue_on(this: NonNull<Self>, queue: *mut bindings::workqueue_struct, is_bh: bool) {
        // Lockdep takes work that runs in both contexts for a deadlock, as the one may wait for it
        // where the other interrupts it. Nobody waits for this work but for the end of its bio.
        let (of_tasks, of_softirqs) = (static_lock_class!(), static_lock_class!());
        let key = if is_bh { of_softirqs } else { of_tasks };
        // SAFETY: By this function's contract.
        let work = Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).work });
        // SAFETY:
        // - `work` is memory for a work item, and none is pending in it: the bio would not have
        //   come back.
        // - It stays where it is until `run()` was called.
        unsafe {
            bindings::init_work_with_key(
                work,
                Some(target_type::run),
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

/// What lies in the per-bio data of a bio of a target `T`.
///
/// # Invariants
///
/// From [`PerBio::init()`] until the bio leaves the target:
///
/// - `head.target_type` is the type of `inner`.
/// - `bio` is the bio that this memory belongs to, alive.
/// - `inner` is its target, alive.
/// - `iter` is the bio's position as it came to the target, and the bytes from there on are in
///   `bio.bi_io_vec`, which does not change, if the operation has data.
#[repr(C)]
pub(in crate::block::dm) struct PerBio<T: Target> {
    /// First, as pointers to it are pointers to this, too.
    head: Head,
    bio: *mut bindings::bio,
    inner: NonNull<Inner<T>>,
    iter: bindings::bvec_iter,
    /// The bio's device, as it came to the target: the mapped one.
    bdev: *mut bindings::block_device,
    /// The bio's operation and the flags of that, as it came to the target.
    opf: bindings::blk_opf_t,
    /// The bio's other flags, as it came to the target.
    flags: u16,
    /// Set once the target itself ended the bio, so that `end_io` need not ask it again.
    ended: bool,
    /// The next bio of a [`SendQueue`](crate::block::dm::SendQueue) or a [`BioList`](crate::block::dm::BioList).
    next: Option<Ptr<T>>,
    /// What `head.work` runs.
    func: Func<T>,
    clone_end: CloneEnd<T>,
    /// What the device reads or writes beside the sectors of the bio, or of its clone.
    tags: Option<Tags>,
    data: T::PerBio,
}

/// A pointer to the [`PerBio`] of a bio that has not left its target.
///
/// # Invariants
///
/// The bio has not left the target, so the invariants of [`PerBio`] hold. There is one `Ptr` to
/// each, in the handle that owns the bio.
#[repr(transparent)]
pub(in crate::block::dm) struct Ptr<T: Target>(NonNull<PerBio<T>>);

impl<T: Target> PerBio<T> {
    /// What `dm_target.per_io_data_size` is for `T`.
    pub(in crate::block::dm) const SIZE: u32 = {
        // Device mapper promises no more, see `dm_table_alloc_md_mempools()`: the data of targets
        // of different sizes in one table ends, not begins, on a cache line.
        assert!(
            align_of::<Self>() <= 8,
            "the alignment of `Target::PerBio` must not exceed 8 bytes"
        );
        assert!(
            size_of::<Self>() <= 4096,
            "`Target::PerBio` must be smaller than a page"
        );
        // CAST: Not more than 4096, see above.
        size_of::<Self>() as u32
    };

    /// Returns the per-bio data of `bio`.
    ///
    /// # Safety
    ///
    /// `bio` must be a clone that device mapper made for a target `T`, and be alive.
    pub(in crate::block::dm) unsafe fn of(bio: *mut bindings::bio) -> *mut Self {
        // SAFETY: `bio` is a clone by this function's contract, and `SIZE` is what
        // `per_io_data_size` is for all targets `T`.
        unsafe { bindings::dm_per_bio_data(bio, Self::SIZE as usize) }.cast()
    }

    /// Starts the life of the per-bio data of `bio`.
    ///
    /// # Safety
    ///
    /// - As for [`PerBio::of()`], and the per-bio data must not be initialised.
    /// - `inner` must be the target, and live until the bio has left it.
    /// - `bio` must be as device mapper passed it to `map`.
    pub(in crate::block::dm) unsafe fn init(
        bio: *mut bindings::bio,
        inner: NonNull<Inner<T>>,
    ) -> Ptr<T> {
        // SAFETY: By this function's contract.
        let this = unsafe { Self::of(bio) };
        // SAFETY: `bio` is alive by this function's contract.
        let (iter, bdev, opf, flags) = unsafe {
            (
                (*bio).bi_iter,
                (*bio).bi_bdev,
                (*bio).bi_opf,
                (*bio).bi_flags,
            )
        };
        // INVARIANT: `bio` and `inner` are what the caller says they are, and `iter` is the bio's
        // position now.
        let value = Self {
            head: Head {
                // SAFETY: By this function's contract.
                target_type: unsafe { inner.as_ref() }.target_type(),
                work: Opaque::uninit(),
            },
            bio,
            inner,
            iter,
            bdev,
            opf,
            flags,
            ended: false,
            next: None,
            func: Func::Task(drop),
            clone_end: CloneEnd::default(),
            tags: None,
            data: T::PerBio::default(),
        };
        // SAFETY: `this` points to `SIZE` bytes of this bio's own, aligned as `SIZE` asserts.
        unsafe { this.write(value) };
        // SAFETY: `this` is not null: it was written to.
        // INVARIANT: The bio has just come, and this is the first pointer to it.
        Ptr(unsafe { NonNull::new_unchecked(this) })
    }

    /// Takes the pointer back that [`Ptr::into_raw()`] gave.
    ///
    /// # Safety
    ///
    /// `this` must come from [`Ptr::into_raw()`], and not have been taken back since.
    pub(in crate::block::dm) unsafe fn from_raw(this: *mut Self) -> Ptr<T> {
        // SAFETY: `into_raw()` returns no null.
        // INVARIANT: By this function's contract the bio has no other pointer, so it was not
        // ended either.
        Ptr(unsafe { NonNull::new_unchecked(this) })
    }

    /// As [`PerBio::from_raw()`].
    ///
    /// # Safety
    ///
    /// As for [`PerBio::from_raw()`], and `head` must be that of a bio of a target `T`.
    pub(in crate::block::dm) unsafe fn from_head(head: NonNull<Head>) -> Ptr<T> {
        // SAFETY: The head is the first field. By this function's contract.
        unsafe { Self::from_raw(head.cast().as_ptr()) }
    }

    /// Runs the work that was queued for the bio.
    ///
    /// # Safety
    ///
    /// Must be called once for each [`Ptr::queue_on()`], with the bio that it was called with.
    pub(in crate::block::dm) unsafe fn run(head: NonNull<Head>) {
        let this: *mut Self = head.cast().as_ptr();
        // SAFETY: `queue_on()` gave up its pointer for this call, so nobody else has one.
        let func = unsafe { (*this).func };
        // SAFETY: As above, by this function's contract.
        let ptr = unsafe { Self::from_raw(this) };
        match func {
            Func::Task(func) => noio_scope(|| func(Bio::new(ptr))),
            // Nothing that allocates in a way that sleeps.
            Func::Soft(func) => func(IrqBio::new(Bio::new(ptr))),
            Func::End => ptr.end_now(),
        }
    }
}

impl<T: Target> Ptr<T> {
    /// Returns the pointer.
    pub(in crate::block::dm) fn as_raw(&self) -> *mut PerBio<T> {
        self.0.as_ptr()
    }

    /// Gives the pointer up without ending the bio.
    pub(in crate::block::dm) fn into_raw(self) -> *mut PerBio<T> {
        self.0.as_ptr()
    }

    /// Returns the bio.
    #[inline]
    pub(in crate::block::dm) fn bio(&self) -> *mut bindings::bio {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).bio }
    }

    /// Returns the target.
    #[inline]
    pub(in crate::block::dm) fn inner(&self) -> Pin<&Inner<T>> {
        // SAFETY: The bio has not left the target, by the type invariants.
        let inner = unsafe { (*self.0.as_ptr()).inner };
        // SAFETY: The target is alive as long as the bio has not left it, which takes `self` by
        // value, so not before this borrow ends. It is pinned, see `ctr` in `vtable.rs`.
        unsafe { Pin::new_unchecked(inner.as_ref()) }
    }

    /// Returns the position that the bio came with.
    #[inline]
    pub(in crate::block::dm) fn iter(&self) -> bindings::bvec_iter {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).iter }
    }

    /// Returns the target's own data.
    #[inline]
    pub(in crate::block::dm) fn data(&mut self) -> &mut T::PerBio {
        // SAFETY: The bio has not left the target, so the data is initialised, and `self` is the
        // only pointer to it, by the type invariants.
        unsafe { &mut (*self.0.as_ptr()).data }
    }

    /// Returns the operation.
    #[inline]
    pub(in crate::block::dm) fn op(&self) -> Op {
        // SAFETY: The bio is alive by the type invariants.
        Op::from_opf(unsafe { (*self.bio()).bi_opf })
    }

    /// Walks the bio's memory; empty if the operation has none.
    #[inline]
    pub(super) fn segments(&self) -> Segments<'_> {
        let (table, iter) = self.table_and_iter();
        // SAFETY: `table_and_iter()` returns a table with the bytes that `iter` tells. The pages
        // are the submitter's, who keeps them until the bio ends, so for `self`'s borrow.
        unsafe { Segments::new(table, iter) }
    }

    /// Walks the bio's memory to fill it; [`None`] unless the operation is [`Op::Read`].
    #[inline]
    pub(super) fn segments_mut(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>)> {
        if self.op() != Op::Read {
            // The pages of a write are the writer's: they may be mapped read-only, or the zero
            // page.
            return None;
        }
        let (table, iter) = self.table_and_iter();
        // SAFETY:
        // - The table has the bytes that `iter` tells, see `table_and_iter()`, and the submitter
        //   of a read has the pages ready to be written until it ends.
        // - `self` is borrowed mutably, so there is no other walk, and no device has the bio: who
        //   has a `Ptr` took it back, or did not send it yet.
        let segments = unsafe { SegmentsMut::new(table, iter) };
        Some((self.inner().get_ref().target(), segments))
    }

    /// Returns the table of segments and the position that the bio came with.
    #[inline]
    pub(super) fn table_and_iter(&self) -> (*const bindings::bio_vec, bindings::bvec_iter) {
        let mut iter = self.iter();
        if !matches!(self.op(), Op::Read | Op::Write) {
            // The other operations have a length, but no or another kind of table.
            iter.bi_size = 0;
        }
        // SAFETY: The bio is alive by the type invariants.
        (unsafe { (*self.bio()).bi_io_vec }, iter)
    }

    /// Shortens the bio to `n_sectors`, which device mapper will send the rest of anew.
    ///
    /// # Safety
    ///
    /// The conditions of `dm_accept_partial_bio()` in `drivers/md/dm.c` must hold.
    pub(super) unsafe fn accept_partial(&mut self, n_sectors: u32) {
        let bio = self.bio();
        // SAFETY: By this function's contract.
        unsafe { bindings::dm_accept_partial_bio(bio, n_sectors) };
        // INVARIANT: The bio is only shorter, so the bytes are still there.
        // SAFETY: The bio is alive, and `self` the only pointer, by the type invariants.
        unsafe { (*self.0.as_ptr()).iter.bi_size = (*bio).bi_iter.bi_size };
    }

    /// Points the bio at a device, with its tags. [`None`] if the target has no such device, or that
    /// does not keep such tags.
    pub(in crate::block::dm) fn remap(&mut self, device: Device, sector: u64) -> Option<()> {
        let bio = self.bio();
        let bdev = self.inner().devices().bdev(device)?;
        // SAFETY: The bio is alive by the type invariants, and the device is open as long as the
        // target lives, see `Devices`.
        unsafe { bindings::bio_set_dev(bio, bdev) };
        // SAFETY: The bio is alive by the type invariants.
        unsafe { (*bio).bi_iter.bi_sector = sector };
        // SAFETY: The bio is alive, with its device set just now, and not used until it comes back:
        // who has it sends or ends it next.
        unsafe { self.attach_tags(bio) }.ok()
    }

    /// Makes a bio that was at a device what it was when it came to the target, but for its tags.
    ///
    /// As `dm_bio_restore()` in `drivers/md/dm-bio-record.h`. There is more to it, as this bio may go to
    /// a device at once, and not through a list of bios:
    ///
    /// - If it was merged into a request, it still points to the one behind it in that, which may be
    ///   gone. See `blk_mq_bio_to_request()` in `block/blk-mq.c`, which takes that for a part of it.
    /// - From a device without a cache it comes without its flags for that, see
    ///   `submit_bio_noacct()` in `block/blk-core.c`. A flush would be a write of nothing then.
    pub(super) fn restore(&mut self) {
        let bio = self.bio();
        let this = self.0.as_ptr();
        // SAFETY: The bio is alive, has not left the target, and nobody but `self` has it, by the type
        // invariants.
        unsafe {
            (*bio).bi_next = core::ptr::null_mut();
            (*bio).bi_bdev = (*this).bdev;
            (*bio).bi_opf |= (*this).opf & (bindings::REQ_PREFLUSH | bindings::REQ_FUA);
            (*bio).bi_flags = (*this).flags;
            (*bio).bi_iter = (*this).iter;
            (*bio).__bi_remaining.counter = 1;
            (*bio).bi_status = 0;
        }
    }

    /// Sends a bio that was remapped to its device.
    pub(in crate::block::dm) fn submit(self) {
        let bio = self.bio();
        let _ = self.into_raw();
        // SAFETY: `bio` is device mapper's clone, and `accounts_remapped_io` is set for each
        // target; it is not used again, until `end_io` gets it back.
        unsafe { bindings::dm_submit_bio_remap(bio, core::ptr::null_mut()) };
    }

    /// Ends the bio. The target may be gone when this returns.
    ///
    /// If there is code to run for the data, which is dropped in the end, then the bio ends in softirq
    /// context: the data may own a bio, whose data owns another, and as each of them would end in the
    /// end of the one before, they would overflow the stack. `bio_endio()` in `block/bio.c` goes round
    /// in a loop for the same reason.
    #[inline]
    pub(in crate::block::dm) fn end(self, result: BlkResult) {
        let bio = self.bio();
        // SAFETY: The bio has not left the target yet, and this is the only pointer to it.
        unsafe { (*self.as_raw()).ended = true };
        // SAFETY: As above.
        unsafe { (*bio).bi_status = BlkError::result_to_raw(result) };
        if needs_drop::<T::PerBio>() {
            self.queue_bh(Func::End);
        } else {
            self.end_now();
        }
    }

    /// Ends the bio, whose result is set.
    fn end_now(self) {
        let bio = self.bio();
        let _ = self.into_raw();
        // SAFETY: `bio` is a clone that device mapper gave us, and is ended for the first time
        // since then or since it came back to `end_io`: this call used the only pointer up.
        unsafe { bindings::bio_endio(bio) };
    }

    /// Tells whether the target itself ended the bio.
    pub(in crate::block::dm) fn ended(&self) -> bool {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).ended }
    }

    /// Returns what is noted of the bio's clone.
    pub(in crate::block::dm) fn clone_end(&self) -> &CloneEnd<T> {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { &(*self.0.as_ptr()).clone_end }
    }

    /// Returns what is noted of the bio's clone.
    pub(super) fn clone_end_mut(&mut self) -> &mut CloneEnd<T> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        unsafe { &mut (*self.0.as_ptr()).clone_end }
    }

    /// Returns the bio behind this one in a [`SendQueue`](crate::block::dm::SendQueue) or a
    /// [`BioList`](crate::block::dm::BioList).
    pub(in crate::block::dm) fn next(&mut self) -> &mut Option<Self> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        unsafe { &mut (*self.0.as_ptr()).next }
    }

    /// Returns the tags.
    pub(in crate::block::dm) fn tags(&self) -> Option<&Tags> {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).tags.as_ref() }
    }

    /// Returns the tags.
    pub(super) fn tags_mut(&mut self) -> &mut Option<Tags> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        unsafe { &mut (*self.0.as_ptr()).tags }
    }

    /// Drops the per-bio data, as the bio leaves the target.
    pub(in crate::block::dm) fn leave(self) {
        // SAFETY: The data is initialised, and this call used the only pointer up.
        unsafe { core::ptr::drop_in_place(self.into_raw()) };
    }

    /// Runs `func` with the bio on a workqueue of the target.
    pub(in crate::block::dm) fn queue(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x Workqueue,
        func: fn(Bio<T>),
    ) {
        let queue = select(self.inner().target()).as_raw();
        // SAFETY: The workqueue outlives the queued work: `select` borrowed it from the target for
        // as long as it likes, so it lives as long as the target, which the bio keeps alive. C
        // itself makes sure that it outlives this call (RCU, see `__queue_work()`).
        unsafe { self.queue_on(queue, Func::Task(func)) };
    }

    /// Runs `func` with the bio in softirq context, on this CPU.
    pub(in crate::block::dm) fn queue_soft(self, func: fn(IrqBio<T>)) {
        self.queue_bh(Func::Soft(func));
    }

    /// Runs `func`, which must not sleep, in softirq context, on this CPU.
    fn queue_bh(self, func: Func<T>) {
        // SAFETY: The kernel made the queue at boot, and keeps it.
        let queue = unsafe { bindings::system_bh_wq };
        // SAFETY: The queue is there for ever.
        unsafe { self.queue_on(queue, func) };
    }

    /// Runs `func` with the bio on a queue.
    ///
    /// # Safety
    ///
    /// `queue` must live until `func` was called, and run what is queued in the context that `func`
    /// is for.
    unsafe fn queue_on(self, queue: *mut bindings::workqueue_struct, func: Func<T>) {
        let this = self.0;
        // SAFETY: The bio has not left the target, and this is the only pointer to it.
        unsafe { (*this.as_ptr()).func = func };
        let is_bh = !matches!(func, Func::Task(_));
        // SAFETY: `self` is given up for `run()`. The queue is as it should be by this function's
        // contract.
        unsafe { Head::queue_on(this.cast(), queue, is_bh) };
    }
}
