// SPDX-License-Identifier: GPL-2.0

//! The callbacks that device mapper calls a [`Target`] through.
//!
//! This file has the constructor, the destructor and the I/O path; [`control`] has the others.

use kernel::{
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_void, //
    },
    module::this_module,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    mem,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult, //
        },
        dm::{
            bio::{
                clone::CloneBio,
                end_io::{
                    EndBio,
                    IoError, //
                },
                map::MapBio,
                parent::ChildEnd,
                per_bio::PerBio, //
            },
            own_io::OwnIo,
            submit::sorted::SortedSubmitQueue, //
        }, //
    },
    mm::gfp::noio_scope, //
};

use super::{
    args::{
        Args,
        CtrError, //
    },
    audit,
    ctr::TargetBuilder,
    delayed_work::WorkSource,
    devices::Devices,
    event::EventSource,
    target_type::{
        self,
        Functions,
        Registered,
        TargetType, //
    },
    Target, //
};

mod control;

/// The object behind `dm_target.private`.
///
/// # Invariants
///
/// Values are pinned from construction on.
#[pin_data]
pub(in crate::block::dm) struct Inner<T: Target> {
    #[pin]
    target: T,
    devices: Devices,
    target_type: NonNull<TargetType>,
    begin_sectors: u64,
    /// Dropped by `dtr`, so before the table is freed.
    _events: Option<EventSource>,
    /// Dropped after `target`, and before the devices are put.
    _own_io: OwnIo,
    /// Closed by `dtr`, before it drops the target.
    work: Option<WorkSource>,
}

impl<T: Target> Inner<T> {
    #[inline]
    pub(in crate::block::dm) fn target(&self) -> Pin<&T> {
        // SAFETY: `self` is pinned by the type invariants, and `target` structurally.
        unsafe { Pin::new_unchecked(&self.target) }
    }

    #[inline]
    pub(in crate::block::dm) fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the target type, which outlives `self`.
    #[inline]
    pub(in crate::block::dm) fn target_type(&self) -> NonNull<TargetType> {
        self.target_type
    }

    /// Returns the sector of the target for a sector of the mapped device.
    #[inline]
    pub(in crate::block::dm) fn target_sector(&self, sector: u64) -> u64 {
        // OVERFLOW: Device mapper sends a target no bio that begins before the target. The
        // exception are flushes, at sector 0, where the difference has no meaning.
        sector.wrapping_sub(self.begin_sectors)
    }

    /// Returns the name that the target is registered under.
    pub(in crate::block::dm) fn name(&self) -> &CStr {
        // SAFETY: The type outlives `self`, and keeps the name.
        unsafe { CStr::from_char_ptr((*TargetType::raw(self.target_type)).name) }
    }
}

/// The callbacks of a target `T`.
pub(super) struct Vtable<T: Target>(PhantomData<T>);

impl<T: Target> Vtable<T> {
    /// Returns the `struct target_type` to register, without the name and the fields private to
    /// device mapper.
    pub(super) fn target_type() -> bindings::target_type {
        bindings::target_type {
            module: this_module::<T::OwnerModule>().as_ptr(),
            version: T::VERSION,
            features: Self::features(),
            ctr: Some(Self::ctr),
            dtr: Some(Self::dtr),
            map: Some(Self::map),
            end_io: if T::HAS_END_IO {
                Some(target_type::end_io)
            } else if PerBio::<T>::NEEDS_END_IO || T::HAS_IO_ERROR {
                // Drops the per-bio data, or reports an error. The bio has not ended when `end_io`
                // returns.
                Some(Self::end_io)
            } else {
                None
            },
            presuspend: if T::HAS_PRESUSPEND {
                Some(Self::presuspend)
            } else {
                None
            },
            presuspend_undo: if T::HAS_PRESUSPEND_UNDO {
                Some(Self::presuspend_undo)
            } else {
                None
            },
            postsuspend: if T::HAS_POSTSUSPEND {
                Some(Self::postsuspend)
            } else {
                None
            },
            preresume: if T::HAS_PRERESUME {
                Some(Self::preresume)
            } else {
                None
            },
            resume: if T::HAS_RESUME {
                Some(Self::resume)
            } else {
                None
            },
            status: Some(bindings::kscale_target_status),
            message: if T::HAS_MESSAGE {
                Some(Self::message)
            } else {
                None
            },
            prepare_ioctl: if T::HAS_PREPARE_IOCTL {
                Some(Self::prepare_ioctl)
            } else {
                None
            },
            iterate_devices: Some(bindings::kscale_target_iterate_devices),
            io_hints: Some(Self::io_hints),
            #[cfg(CONFIG_BLK_DEV_ZONED)]
            report_zones: if T::HAS_ZONES {
                Some(Self::report_zones)
            } else {
                None
            },
            ..pin_init::zeroed()
        }
    }

    /// The functions that C does not call directly.
    pub(super) const FUNCTIONS: Functions = Functions {
        status: Self::status,
        iterate_devices: Self::iterate_devices,
        end_io: Self::end_io,
        end_clone: CloneBio::<T>::end_clone,
        end_child: ChildEnd::<T>::end,
        run: PerBio::<T>::run,
        submit_clones: SortedSubmitQueue::<T>::submit_clones,
        delayed_work: Self::delayed_work,
    };

    /// Returns the feature flags of the target.
    fn features() -> u64 {
        let mut features = 0;

        if T::ATOMIC_WRITES {
            features |= bindings::DM_TARGET_ATOMIC_WRITES;
        }
        if T::NOWAIT {
            features |= bindings::DM_TARGET_NOWAIT;
        }
        if T::HAS_ZONES {
            // 0 without `CONFIG_BLK_DEV_ZONED`.
            features |= bindings::DM_TARGET_ZONED_HM;
        }
        features.into()
    }

    /// Returns the addresses of the target's code, with the address of `ctr` for missing callbacks.
    pub(super) fn addresses(
        target_type: &bindings::target_type,
        functions: &Functions,
    ) -> [usize; 21] {
        macro_rules! address {
            ($callback:ident) => {
                target_type
                    .$callback
                    .map_or(Self::ctr as *const () as usize, |func| func as usize)
            };
        }
        #[cfg(CONFIG_BLK_DEV_ZONED)]
        let report_zones = address!(report_zones);
        #[cfg(not(CONFIG_BLK_DEV_ZONED))]
        let report_zones = Self::ctr as *const () as usize;

        [
            address!(ctr),
            address!(dtr),
            address!(map),
            address!(presuspend),
            address!(presuspend_undo),
            address!(postsuspend),
            address!(preresume),
            address!(resume),
            functions.status as usize,
            address!(message),
            address!(prepare_ioctl),
            functions.iterate_devices as usize,
            address!(io_hints),
            report_zones,
            functions.end_io as usize,
            functions.end_clone as usize,
            functions.end_child as usize,
            functions.run as usize,
            functions.submit_clones as usize,
            functions.delayed_work as usize,
            Registered::<T>::free as *const () as usize,
        ]
    }

    /// Borrows the target.
    ///
    /// # Safety
    ///
    /// The caller must be a callback of `ti` other than `ctr` and `dtr`.
    unsafe fn inner<'a>(ti: *mut bindings::dm_target) -> &'a Inner<T> {
        // SAFETY: `ctr` set `private` to an `Inner<T>`. Only `dtr` frees it, and device mapper
        // calls `dtr` when no other callback runs, see `dm_table_destroy()`.
        unsafe { &*(*ti).private.cast() }
    }

    /// Borrows the target.
    ///
    /// # Safety
    ///
    /// As for [`Vtable::inner()`].
    unsafe fn target<'a>(ti: *mut bindings::dm_target) -> Pin<&'a T> {
        // SAFETY: By this function's contract.
        unsafe { Self::inner(ti) }.target()
    }

    /// Constructs the target of a table line.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.ctr`.
    unsafe extern "C" fn ctr(
        ti: *mut bindings::dm_target,
        argc: c_uint,
        argv: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: This is `ctr`; the devices are put below, or by `dtr`. The events, the clients
        // and the delayed work are dropped in this function, the clients before the devices are
        // put, or by `dtr`.
        let mut builder = unsafe { TargetBuilder::new(ti) };
        // SAFETY: The arguments belong to this call, and `construct()` cannot keep them.
        let args = unsafe { Args::new(argc, argv) };

        match Self::construct(&mut builder, args) {
            Ok(inner) => {
                // SAFETY: `dtr` takes the box back, and treats it as pinned.
                let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
                // SAFETY: This is `ctr`, so it has exclusive access to `ti`.
                unsafe { (*ti).private = inner.cast() };
                // SAFETY: The target was just constructed. Only `dtr` borrows it mutably.
                if let Some(work) = unsafe { &(*inner).work } {
                    // SAFETY: As above. The work was created for the type of `ti`, and `dtr` drops
                    // it before the target.
                    unsafe { work.open(inner.cast()) };
                }
                if T::AUDITED {
                    // SAFETY: This is `ctr`.
                    unsafe { audit::made(ti) };
                }
                0
            }
            Err(error) => {
                // Waits for I/O to the devices.
                drop(mem::take(&mut builder.own_io));
                // SAFETY: This is `ctr`, and the devices were opened for `ti`.
                unsafe { builder.devices.close_all(ti) };
                if let Some(message) = error.message() {
                    // SAFETY: As above. The message is static, so it outlives all its uses in
                    // device mapper.
                    unsafe { (*ti).error = message.as_char_ptr().cast_mut() };
                }
                if T::AUDITED {
                    // SAFETY: This is `ctr`. If there is no message here, device mapper has set
                    // one, see `dm_table_add_target()`.
                    unsafe { audit::refused(ti) };
                }
                error.error().to_errno()
            }
        }
    }

    fn construct(
        builder: &mut TargetBuilder<'_>,
        args: Args<'_>,
    ) -> Result<Pin<KBox<Inner<T>>>, CtrError> {
        const {
            assert!(
                size_of::<Inner<T>>() <= bindings::KMALLOC_MAX_SIZE as usize,
                "the target is too large for kmalloc()"
            );
        }
        builder.set_per_bio(PerBio::<T>::SIZE);
        let begin_sectors = builder.begin_sectors();
        let target_type = builder.target_type();
        let mut inner = KBox::<Inner<T>>::new_uninit(GFP_KERNEL)?;
        let slot = inner.as_mut_ptr();

        // SAFETY: `Registration::<T>` made the type: no other type has this `ctr`. The table has a
        // reference to the module, which keeps the type, see `get_target_type()` in
        // `drivers/md/dm-target.c`.
        let data = unsafe { Registered::<T>::data(target_type) };
        let target = T::ctr(data, builder, args)?;
        // SAFETY: `slot` is memory for an `Inner<T>`. It is not used if this fails, and is pinned
        // below otherwise.
        unsafe { pin_init::raw_try_init(&raw mut (*slot).target, target) }?;
        let checked = builder.check();
        let devices = mem::replace(&mut builder.devices, Devices::new());
        // SAFETY: As above.
        unsafe { (&raw mut (*slot).devices).write(devices) };
        // SAFETY: As above.
        unsafe { (&raw mut (*slot).target_type).write(target_type) };
        // SAFETY: As above.
        unsafe { (&raw mut (*slot).begin_sectors).write(begin_sectors) };
        // SAFETY: As above.
        unsafe { (&raw mut (*slot)._events).write(builder.events.take()) };
        // SAFETY: As above.
        unsafe { (&raw mut (*slot)._own_io).write(mem::take(&mut builder.own_io)) };
        // SAFETY: As above.
        unsafe { (&raw mut (*slot).work).write(builder.work.take()) };

        // SAFETY: All eight fields were written.
        // INVARIANT: Pinned before any other code gets a reference.
        let mut inner = KBox::into_pin(unsafe { inner.assume_init() });
        if let Err(error) = checked {
            // `ctr` puts the devices after the target is dropped here.
            builder.devices = mem::replace(inner.as_mut().project().devices, Devices::new());
            return Err(error);
        }
        Ok(inner)
    }

    /// Destroys the target.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.dtr`.
    unsafe extern "C" fn dtr(ti: *mut bindings::dm_target) {
        // SAFETY: `ctr` set `private` to an `Inner<T>`, which is not freed yet.
        let inner: *mut Inner<T> = unsafe { (*ti).private.cast() };
        // SAFETY: As above. It is not borrowed mutably: this shared borrow ends before the box is
        // made.
        if let Some(work) = unsafe { &(*inner).work } {
            // Waits for the delayed work, which borrows the target.
            work.close();
        }
        // SAFETY: `ctr` set `private` to such a box. No pointer to it is left:
        //
        // - `dtr` is called once, by `dm_table_destroy()` in `drivers/md/dm-table.c`. No other
        //   callback of the table runs then or later: the table was never bound to the device, or
        //   `dm_sync_table()` in `drivers/md/dm.c` has waited for readers of `md->map`.
        // - No bio of the target is left. `dm_swap_table()` requires a suspended device, and
        //   `__dm_suspend()` waits for `md->pending_io`, which `__dm_io_complete()` decrements when
        //   all parts of a bio have ended. `__dm_destroy()` waits until the device has no openers
        //   (`md->holders`), and a submitter has the device open until its bio has ended.
        // - So no borrow from a bio is left: ending a bio takes it by value, so each borrow ends
        //   before the bio does. A function that continues after that, in a section that the
        //   registration waits for, has no bio and no borrow.
        // - Work that is queued for a bio runs before the bio ends. Dropping a `SortedSubmitQueue`
        //   waits for its work. The delayed work has ended, see above.
        let inner = unsafe { KBox::<Inner<T>>::from_raw(inner) };
        let mut inner = KBox::into_pin(inner);
        let devices = mem::replace(inner.as_mut().project().devices, Devices::new());

        // Drop the target first: it may use the devices until then. Its own I/O ends here, too.
        drop(inner);
        // SAFETY: This is `dtr`, and the devices were opened for `ti`.
        unsafe { devices.close_all(ti) };
        if T::AUDITED {
            // SAFETY: This is `dtr`.
            unsafe { audit::gone(ti) };
        }
    }

    /// Maps a bio.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.map`.
    unsafe extern "C" fn map(ti: *mut bindings::dm_target, bio: *mut bindings::bio) -> c_int {
        // SAFETY: This is `map`. The target outlives the call even if the bio ends in it: device
        // mapper holds its table in `dm_submit_bio()` in `drivers/md/dm.c`.
        let inner = unsafe { Self::inner(ti) };
        // `new()` may call `T::PerBio::default()`, which may allocate.
        noio_scope(|| {
            // SAFETY: `bio` is the argument of `map`, and `inner` is its target. The lifetime of
            // the temporary is local to this closure.
            let bio = unsafe { MapBio::new(bio, NonNull::from(inner)) };

            T::map(inner.target(), bio).finish()
        })
    }

    /// Handles the completion of a bio.
    ///
    /// If the target has its own `end_io`, that may take the bio over, end it, and continue when
    /// both the target and its table are gone. Otherwise the bio ends after this function has
    /// returned.
    ///
    /// # Safety
    ///
    /// Device mapper must call this as `target_type.end_io`. If the target has its own `end_io`, it
    /// must do so through [`target_type::end_io()`], which keeps the code loaded.
    unsafe extern "C" fn end_io(
        ti: *mut bindings::dm_target,
        bio: *mut bindings::bio,
        error: *mut bindings::blk_status_t,
    ) -> c_int {
        const {
            assert!(
                !(T::HAS_END_IO && T::HAS_IO_ERROR),
                "a target with `end_io` gets the errors there: it cannot have `io_error`, too"
            );
        }
        // SAFETY: `error` points to a variable of the caller, `clone_endio()`.
        let result = BlkError::result_from_raw(unsafe { *error });
        if !PerBio::<T>::NEEDS_END_IO {
            // SAFETY: This is `end_io`.
            unsafe { Self::report_error(ti, bio, result) };
            return bindings::DM_ENDIO_DONE as c_int;
        }
        // SAFETY: `bio` is a clone that passed through `map`; otherwise device mapper would not
        // call this.
        let this = unsafe { PerBio::<T>::of(bio) };
        // SAFETY: The pointer was given up when the bio was remapped, submitted or ended. Only
        // these lead here.
        let ptr = unsafe { PerBio::from_raw(this) };

        if ptr.completed_by_target() {
            ptr.destroy();
            return bindings::DM_ENDIO_DONE as c_int;
        }
        if !T::HAS_END_IO {
            // SAFETY: This is `end_io`.
            unsafe { Self::report_error(ti, bio, result) };
            ptr.destroy();
            return bindings::DM_ENDIO_DONE as c_int;
        }
        match T::end_io(EndBio::new(ptr, result)).finish() {
            Some(result) => {
                // SAFETY: As above.
                unsafe { *error = BlkError::result_to_raw(result) };
                bindings::DM_ENDIO_DONE as c_int
            }
            None => bindings::DM_ENDIO_INCOMPLETE as c_int,
        }
    }

    /// Calls [`Target::io_error()`] if a device has failed the bio.
    ///
    /// # Safety
    ///
    /// Must be called in `target_type.end_io`, with its arguments.
    #[inline]
    unsafe fn report_error(
        ti: *mut bindings::dm_target,
        bio: *mut bindings::bio,
        result: BlkResult,
    ) {
        let (true, Err(error)) = (T::HAS_IO_ERROR, result) else {
            return;
        };
        // SAFETY: This is `end_io`. The target lives until the bio has ended.
        let inner = unsafe { Self::inner(ti) };
        // SAFETY: The bio has not ended.
        let (bdev, opf) = unsafe { ((*bio).bi_bdev, (*bio).bi_opf) };
        // A bio that the target itself has ended is at the mapped device.
        if let Some(device) = inner.devices().index_of(bdev) {
            inner.target().io_error(IoError::new(device, error, opf));
        }
    }

    /// Runs the delayed work.
    ///
    /// # Safety
    ///
    /// `inner` must be an `Inner<T>` that lives until this returns, and that is not borrowed
    /// mutably.
    unsafe fn delayed_work(inner: NonNull<c_void>) {
        // SAFETY: By this function's contract.
        let inner: &Inner<T> = unsafe { inner.cast().as_ref() };
        noio_scope(|| inner.target().delayed_work());
    }
}
