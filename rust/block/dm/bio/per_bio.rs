// SPDX-License-Identifier: GPL-2.0

//! Per-bio data: the state that the wrapper keeps for each bio that device mapper clones for a
//! target.
//!
//! Device mapper owns the memory (`dm_per_bio_data()` in `drivers/md/dm.c`) and recycles it as is.
//! So `map` initialises it, and it is dropped when the bio leaves the target.

use kernel::{
    prelude::*,
    types::Opaque, //
};

use core::{
    mem::{
        align_of,
        needs_drop,
        ManuallyDrop,
        MaybeUninit, //
    },
    ptr::NonNull, //
};

use pin_init::raw_init;

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult,
            IntegrityPayload,
            Op,
            Segments,
            SegmentsMut, //
        },
        dm::{
            target::{
                devices::DeviceIndex,
                vtable::Inner,
                Target, //
            },
            wait::IoCompletion, //
        }, //
    },
    mm::gfp::noio_scope,
    sync::workqueue::Workqueue, //
};

use super::{
    clone::CloneEnd,
    head::Head,
    owned::{
        Bio,
        IrqBio, //
    },
    parent::Parent,
    raw, //
};

/// The function of a work item.
pub(super) enum Func<T: Target> {
    /// Runs in process context.
    Task(fn(Bio<T>)),
    /// Runs in softirq context.
    Bh(fn(IrqBio<T>)),
    /// Ends the bio, in softirq context.
    End,
}

impl<T: Target> Clone for Func<T> {
    fn clone(&self) -> Self {
        *self
    }
}

// A derived implementation would require `T: Copy`.
impl<T: Target> Copy for Func<T> {}

/// The state of I/O that the bio waits for.
union OtherIo<T: Target> {
    none: (),
    /// That of the clones of a parent, from [`Bio::into_parent()`].
    parent: ManuallyDrop<Parent<T>>,
    /// That of [`CloneBio::read()`](super::clone::CloneBio::read). It is not on the stack of the
    /// reader: the function of a device below may panic in the reader's task, which frees the
    /// stack.
    read: ManuallyDrop<IoCompletion>,
}

/// The per-bio data of a bio of a target `T`.
///
/// # Invariants
///
/// From [`PerBio::init()`] until the bio leaves the target:
///
/// - `head.target_type` is the type of `inner`.
/// - `bio` is the bio that this memory belongs to, alive.
/// - `inner` is its target, alive.
/// - `iter` is the position of the bio when it entered the target. If the operation has data, the
///   bytes from there on are in `bio.bi_io_vec`, which does not change.
#[repr(C)]
pub(in crate::block::dm) struct PerBio<T: Target> {
    /// First, so that a pointer to it is also a pointer to the `PerBio`.
    head: Head,
    bio: *mut bindings::bio,
    inner: NonNull<Inner<T>>,
    iter: bindings::bvec_iter,
    /// The device of the bio when it entered the target: the mapped device.
    bdev: *mut bindings::block_device,
    /// `bi_opf` of the bio when it entered the target.
    opf: bindings::blk_opf_t,
    /// `bi_flags` of the bio when it entered the target.
    flags: u16,
    /// Set when the target itself ends the bio, so that `end_io` does not call the target again.
    completed_by_target: bool,
    /// The next bio in a [`SortedSubmitQueue`](crate::block::dm::SortedSubmitQueue) or a
    /// [`BioList`](crate::block::dm::BioList).
    next: Option<PerBioRef<T>>,
    /// The function that `head.work` runs. Initialised when the work is queued.
    func: MaybeUninit<Func<T>>,
    /// Initialised when a clone is made.
    clone_end: MaybeUninit<CloneEnd<T>>,
    other_io: OtherIo<T>,
    /// The integrity payload of the bio or of its clone.
    integrity: Option<IntegrityPayload>,
    data: T::PerBio,
}

/// A pointer to the [`PerBio`] of a bio that has not left its target.
///
/// # Invariants
///
/// The bio has not left the target, so the invariants of [`PerBio`] hold. The handle that owns the
/// bio has the only `PerBioRef` to it. [`ParentBio`](super::parent::ParentBio)s own a bio together:
/// each has a `PerBioRef`, and they only call methods that take `&self`.
#[repr(transparent)]
pub(in crate::block::dm) struct PerBioRef<T: Target>(NonNull<PerBio<T>>);

impl<T: Target> PerBio<T> {
    /// `dm_target.per_io_data_size` for `T`.
    pub(in crate::block::dm) const SIZE: u32 = {
        // Device mapper guarantees no more, see `dm_table_alloc_md_mempools()`: if a table has
        // targets of different sizes, the end of the data is cache-aligned, not its begin.
        assert!(
            align_of::<Self>() <= 8,
            "the alignment of `Target::PerBio` must not exceed 8 bytes"
        );
        assert!(
            size_of::<Self>() <= 4096,
            "`Target::PerBio` must be smaller than a page"
        );
        // CAST: At most 4096, see above.
        size_of::<Self>() as u32
    };

    /// Whether `end_io` must drop the per-bio data, or pass the bio to the target.
    pub(in crate::block::dm) const NEEDS_END_IO: bool =
        T::HAS_END_IO || T::INTEGRITY_PAYLOADS || needs_drop::<T::PerBio>();

    /// Whether `map` can read and write the data of the target.
    pub(in crate::block::dm) const HAS_DATA: bool = size_of::<T::PerBio>() != 0;

    /// Returns the per-bio data of `bio`.
    ///
    /// # Safety
    ///
    /// `bio` must be a clone that device mapper made for a target `T`, and must be alive.
    pub(in crate::block::dm) unsafe fn of(bio: *mut bindings::bio) -> *mut Self {
        // SAFETY: `bio` is a clone by this function's contract, and `SIZE` is the
        // `per_io_data_size` of all targets `T`.
        unsafe { bindings::dm_per_bio_data(bio, Self::SIZE as usize) }.cast()
    }

    /// Initialises the per-bio data of `bio`.
    ///
    /// # Safety
    ///
    /// - As for [`PerBio::of()`], and the per-bio data must not be initialised.
    /// - `inner` must be the target, and live until the bio has left it.
    /// - `bio` must be as device mapper passed it to `map`.
    pub(in crate::block::dm) unsafe fn init(
        bio: *mut bindings::bio,
        inner: NonNull<Inner<T>>,
    ) -> PerBioRef<T> {
        // SAFETY: By this function's contract.
        let this = unsafe { Self::of(bio) };
        // SAFETY: `bio` is alive by this function's contract.
        let (iter, bdev, opf, flags) = unsafe {
            (
                raw::iter(bio),
                (*bio).bi_bdev,
                (*bio).bi_opf,
                (*bio).bi_flags,
            )
        };
        // INVARIANT: `bio` and `inner` are correct by this function's contract, and `iter` is the
        // current position of the bio.
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
            completed_by_target: false,
            next: None,
            func: MaybeUninit::uninit(),
            clone_end: MaybeUninit::uninit(),
            other_io: OtherIo { none: () },
            integrity: None,
            data: T::PerBio::default(),
        };
        // SAFETY: `this` points to `SIZE` bytes that belong to this bio, aligned as `SIZE` asserts.
        unsafe { this.write(value) };
        // SAFETY: `this` is not null: it was written to.
        // INVARIANT: The bio has just entered the target, and this is the first pointer to it.
        PerBioRef(unsafe { NonNull::new_unchecked(this) })
    }

    /// Takes back the pointer that [`PerBioRef::into_raw()`] returned.
    ///
    /// # Safety
    ///
    /// `this` must come from [`PerBioRef::into_raw()`], and must not have been taken back since.
    pub(in crate::block::dm) unsafe fn from_raw(this: *mut Self) -> PerBioRef<T> {
        // SAFETY: `into_raw()` returns a non-null pointer.
        // INVARIANT: By this function's contract the bio has no other pointer, so it has not ended.
        PerBioRef(unsafe { NonNull::new_unchecked(this) })
    }

    /// As [`PerBio::from_raw()`].
    ///
    /// # Safety
    ///
    /// As for [`PerBio::from_raw()`], and `head` must belong to a bio of a target `T`.
    pub(in crate::block::dm) unsafe fn from_head(head: NonNull<Head>) -> PerBioRef<T> {
        // SAFETY: The head is the first field. By this function's contract.
        unsafe { Self::from_raw(head.cast().as_ptr()) }
    }

    /// Runs the queued work of the bio.
    ///
    /// # Safety
    ///
    /// Must be called once for each [`PerBioRef::queue_on()`], with the same bio.
    pub(in crate::block::dm) unsafe fn run(head: NonNull<Head>) {
        let this: *mut Self = head.cast().as_ptr();
        // SAFETY: `queue_on()` gave up its pointer for this call, so there is no other. It has set
        // the function.
        let func = unsafe { (*this).func.assume_init() };
        // SAFETY: As above, by this function's contract.
        let ptr = unsafe { Self::from_raw(this) };
        match func {
            Func::Task(func) => noio_scope(|| func(Bio::new(ptr))),
            // Needs no NOIO scope: softirq context allows no sleeping allocation.
            Func::Bh(func) => func(Bio::new(ptr)),
            Func::End => ptr.end_now(),
        }
    }
}

impl<T: Target> PerBioRef<T> {
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
        // SAFETY: The target is alive until the bio leaves it. That takes `self` by value, so it
        // happens after this borrow. The target is pinned, see `ctr` in `vtable.rs`.
        unsafe { Pin::new_unchecked(inner.as_ref()) }
    }

    /// Returns the position of the bio when it entered the target.
    #[inline]
    pub(in crate::block::dm) fn iter(&self) -> bindings::bvec_iter {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).iter }
    }

    /// Returns the per-bio data of the target.
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
        unsafe { raw::op(self.bio()) }
    }

    /// Returns the operation and the flags that the bio had when it entered the target.
    #[inline]
    pub(super) fn opf(&self) -> bindings::blk_opf_t {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).opf }
    }

    /// Returns an iterator over the memory of the bio. It is empty if the operation has none.
    #[inline]
    pub(super) fn segments(&self) -> Segments<'_> {
        let (table, iter) = self.table_and_iter();
        // SAFETY: `table_and_iter()` returns a table with `iter.bi_size` bytes. The submitter keeps
        // the pages until the bio ends, so for the borrow of `self`.
        unsafe { Segments::new(table, iter) }
    }

    /// Returns the target and a mutable iterator over the memory, which is empty unless
    /// [`Op::Read`].
    #[inline]
    pub(super) fn segments_mut(&mut self) -> (Pin<&T>, SegmentsMut<'_>) {
        // SAFETY: The bio is alive by the type invariants.
        let (table, iter) = unsafe { raw::writable_table(self.bio(), self.iter()) };
        // SAFETY:
        // - The table has `iter.bi_size` bytes, see `raw::writable_table()`. The submitter of a
        //   read keeps its pages writable until the read ends. Other operations have 0 bytes here.
        // - `self` is borrowed mutably, so there is no other iterator. The bio is at no device: a
        //   `PerBioRef` only exists before submission and after completion.
        let segments = unsafe { SegmentsMut::new(table, iter) };
        (self.inner().get_ref().target(), segments)
    }

    /// Returns the table of segments, and the position of the bio when it entered the target.
    #[inline]
    pub(super) fn table_and_iter(&self) -> (*const bindings::bio_vec, bindings::bvec_iter) {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { raw::table(self.bio(), self.iter()) }
    }

    /// Sets the length of a bio that became shorter in `map`.
    ///
    /// `len_bytes` must be at most the length before.
    pub(super) fn shorten(&mut self, len_bytes: u32) {
        // SAFETY: The bio has not left the target, and `self` is the only pointer, by the type
        // invariants.
        let iter = unsafe { &mut (*self.0.as_ptr()).iter };
        // INVARIANT: The bio only became shorter, so the bytes are still in the table.
        iter.bi_size = iter.bi_size.min(len_bytes);
    }

    /// Points the bio at a device, with its integrity payload. Returns [`None`] if the target has
    /// no such device, or if the device does not support such a payload.
    pub(in crate::block::dm) fn remap(&mut self, device: DeviceIndex, sector: u64) -> Option<()> {
        let bio = self.bio();
        // SAFETY: The bio is alive by the type invariants.
        unsafe { raw::set_dev(bio, self.inner().get_ref(), device, sector) }?;
        // SAFETY: The bio is alive, and its device was set above. It is not used until it
        // completes: the owner sends or ends it next.
        unsafe { self.attach_integrity(bio) }.ok()
    }

    /// Restores the state that the bio had when it entered the target, except for its
    /// integrity payload.
    ///
    /// As `dm_bio_restore()` in `drivers/md/dm-bio-record.h`. This function restores more, as the
    /// bio may be submitted to a device directly, and not through a list of bios:
    ///
    /// - If the bio was merged into a request, `bi_next` still points to the next bio of this
    ///   request, which may be freed. `blk_mq_bio_to_request()` in `block/blk-mq.c` takes `bi_next`
    ///   for a part of the new request.
    /// - For a device without a write cache, `submit_bio_noacct()` in `block/blk-core.c` clears the
    ///   cache flags. A flush would then be an empty write.
    pub(super) fn restore(&mut self) {
        let bio = self.bio();
        let this = self.0.as_ptr();
        // SAFETY: The bio is alive, has not left the target, and only `self` owns it, by the type
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

    /// Submits a remapped bio to its device.
    pub(in crate::block::dm) fn submit(self) {
        let bio = self.bio();
        let _ = self.into_raw();
        // SAFETY: `bio` is device mapper's clone, and `accounts_remapped_io` is set for each
        // target. The bio is not used again until `end_io` gets it.
        unsafe { bindings::dm_submit_bio_remap(bio, core::ptr::null_mut()) };
    }

    /// Ends the bio. The target may be gone when `end()` returns.
    ///
    /// If the per-bio data has a destructor, the bio ends in softirq context. The data may own a
    /// bio, whose data owns another bio, and so on. Ending each bio inside the end of the one
    /// before would overflow the stack. `bio_endio()` in `block/bio.c` loops for the same reason.
    #[inline]
    pub(in crate::block::dm) fn end(self, result: BlkResult) {
        let bio = self.bio();
        // SAFETY: The bio has not left the target yet, and this is the only pointer to it.
        unsafe { (*self.as_raw()).completed_by_target = true };
        // SAFETY: As above.
        unsafe { (*bio).bi_status = BlkError::result_to_raw(result) };
        if needs_drop::<T::PerBio>() {
            self.queue_func_bh(Func::End);
        } else {
            self.end_now();
        }
    }

    /// Ends a bio whose status is set.
    fn end_now(self) {
        let bio = self.bio();
        let _ = self.into_raw();
        // SAFETY: `bio` is a clone from device mapper. It is ended for the first time since `map`
        // or `end_io`: this call consumed the only pointer.
        unsafe { bindings::bio_endio(bio) };
    }

    /// Returns whether the target itself ended the bio.
    pub(in crate::block::dm) fn completed_by_target(&self) -> bool {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).completed_by_target }
    }

    /// Returns another pointer to the bio.
    ///
    /// # Safety
    ///
    /// The bio must not leave the target while a copy exists. No method that takes `&mut self` may
    /// be called meanwhile.
    pub(super) unsafe fn duplicate(&self) -> Self {
        // INVARIANT: By this function's contract.
        Self(self.0)
    }

    /// Returns the per-bio data of the target.
    #[inline]
    pub(super) fn shared_data(&self) -> &T::PerBio {
        // SAFETY: The bio has not left the target, so the data is initialised, by the type
        // invariants. A mutable borrow of the data borrows the handle mutably.
        unsafe { &(*self.0.as_ptr()).data }
    }

    /// Sets the state of a bio with clones.
    pub(super) fn set_parent(&mut self, parent: Parent<T>) {
        // SAFETY: The bio has not left the target, and `self` is the only pointer. The type has no
        // destructor.
        unsafe { (*self.0.as_ptr()).other_io.parent = ManuallyDrop::new(parent) };
    }

    /// Returns the state of a bio with clones.
    ///
    /// # Safety
    ///
    /// [`PerBioRef::set_parent()`] must have been called.
    pub(super) unsafe fn parent(&self) -> &Parent<T> {
        // SAFETY: The bio has not left the target, by the type invariants. The field is
        // initialised, by this function's contract.
        unsafe { &(*self.0.as_ptr()).other_io.parent }
    }

    /// Initialises the completion of a read into the clone of the bio, and returns it.
    ///
    /// It is valid until the bio leaves the target, or [`PerBioRef::set_parent()`] is called.
    pub(super) fn init_read(&mut self) -> NonNull<IoCompletion> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        let slot = unsafe { &raw mut (*self.0.as_ptr()).other_io.read }.cast();
        // SAFETY: `slot` is valid for writes, and the per-bio data does not move.
        unsafe { raw_init(slot, IoCompletion::new()) };
        // SAFETY: The slot is not null, as it is a part of the per-bio data.
        unsafe { NonNull::new_unchecked(slot) }
    }

    /// Sets the completion state of a new clone.
    pub(super) fn set_clone_end(&mut self, clone_end: CloneEnd<T>) {
        // SAFETY: The bio has not left the target, and `self` is the only pointer. The type has no
        // destructor.
        unsafe { (*self.0.as_ptr()).clone_end = MaybeUninit::new(clone_end) };
    }

    /// Returns the completion state of the clone.
    ///
    /// # Safety
    ///
    /// [`PerBioRef::set_clone_end()`] must have been called.
    pub(in crate::block::dm) unsafe fn clone_end(&self) -> &CloneEnd<T> {
        // SAFETY: The bio has not left the target, by the type invariants.
        let clone_end = unsafe { &(*self.0.as_ptr()).clone_end };
        // SAFETY: By this function's contract.
        unsafe { clone_end.assume_init_ref() }
    }

    /// Returns the completion state of the clone.
    ///
    /// # Safety
    ///
    /// [`PerBioRef::set_clone_end()`] must have been called.
    pub(super) unsafe fn clone_end_mut(&mut self) -> &mut CloneEnd<T> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        let clone_end = unsafe { &mut (*self.0.as_ptr()).clone_end };
        // SAFETY: By this function's contract.
        unsafe { clone_end.assume_init_mut() }
    }

    /// Returns the next bio in a [`SortedSubmitQueue`](crate::block::dm::SortedSubmitQueue) or a
    /// [`BioList`](crate::block::dm::BioList).
    pub(in crate::block::dm) fn next(&mut self) -> &mut Option<Self> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        unsafe { &mut (*self.0.as_ptr()).next }
    }

    /// Returns the integrity payload.
    pub(in crate::block::dm) fn integrity(&self) -> Option<&IntegrityPayload> {
        // SAFETY: The bio has not left the target, by the type invariants.
        unsafe { (*self.0.as_ptr()).integrity.as_ref() }
    }

    /// Sets the integrity payload.
    pub(super) fn set_integrity(&mut self, payload: IntegrityPayload) {
        const {
            assert!(
                T::INTEGRITY_PAYLOADS,
                "a target with integrity payloads must set `Target::INTEGRITY_PAYLOADS`"
            )
        };
        *self.integrity_mut() = Some(payload);
    }

    /// Returns the integrity payload.
    pub(super) fn integrity_mut(&mut self) -> &mut Option<IntegrityPayload> {
        // SAFETY: The bio has not left the target, and `self` is the only pointer.
        unsafe { &mut (*self.0.as_ptr()).integrity }
    }

    /// Drops the per-bio data when the bio leaves the target.
    #[inline]
    pub(in crate::block::dm) fn destroy(self) {
        // Otherwise there is no payload, see `set_integrity()`.
        if T::INTEGRITY_PAYLOADS || needs_drop::<T::PerBio>() {
            // SAFETY: The data is initialised, and this call consumed the only pointer.
            unsafe { core::ptr::drop_in_place(self.into_raw()) };
        }
    }

    /// Returns whether the function at `address` may be called with the bio later.
    ///
    /// It must be code of the module of the target, which the table keeps loaded.
    #[inline]
    pub(super) fn may_call(&self, address: usize) -> bool {
        // SAFETY: The bio has not left the target, by the type invariants, so its table keeps the
        // type.
        unsafe { (*self.0.as_ptr()).head.target_type.as_ref() }.has_code(address)
    }

    /// Runs `func` with the bio on a workqueue of the target.
    pub(in crate::block::dm) fn queue(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x Workqueue,
        func: fn(Bio<T>),
    ) {
        let queue = select(self.inner().target()).as_raw();
        // SAFETY: The workqueue outlives the queued work: `select` borrowed it from the target for
        // an arbitrary lifetime, so it lives as long as the target, which the bio keeps alive. C
        // itself ensures that the workqueue outlives this call (RCU, see `__queue_work()`).
        unsafe { self.queue_on(queue, Func::Task(func)) };
    }

    /// Runs `func` with the bio in softirq context on this CPU.
    pub(in crate::block::dm) fn queue_bh(self, func: fn(IrqBio<T>)) {
        self.queue_func_bh(Func::Bh(func));
    }

    /// Runs `func` in softirq context on this CPU. `func` must not sleep.
    fn queue_func_bh(self, func: Func<T>) {
        // SAFETY: The kernel allocates the workqueue at boot and never frees it.
        let queue = unsafe { bindings::system_bh_wq };
        // SAFETY: The workqueue is never freed.
        unsafe { self.queue_on(queue, func) };
    }

    /// Runs `func` with the bio on a workqueue.
    ///
    /// # Safety
    ///
    /// `queue` must live until `func` was called, and must run work in the context that `func`
    /// requires.
    unsafe fn queue_on(self, queue: *mut bindings::workqueue_struct, func: Func<T>) {
        let this = self.0;
        // SAFETY: The bio has not left the target, and this is the only pointer to it.
        unsafe { (*this.as_ptr()).func = MaybeUninit::new(func) };
        let is_bh = !matches!(func, Func::Task(_));
        // SAFETY: `self` is given up for `run()`. The queue is suitable by this function's
        // contract.
        unsafe { Head::queue_on(this.cast(), queue, is_bh) };
    }
}
