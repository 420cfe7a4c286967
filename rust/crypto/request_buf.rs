// SPDX-License-Identifier: GPL-2.0

//! Crypto requests in memory of their own.
//!
//! A driver may go on with a request after the call that passed it on returned, on another CPU or
//! by DMA, so the request, the vectors and the tables of data must not be on a stack then. A
//! [`Frame`] is all of that in one piece, from a pool that a cipher keeps for it.
//!
//! Whoever passes a frame on waits until the driver is done with it, at once or by a [`Pending`]:
//! nothing that it points to, nor the frame itself, can go away before.

use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    mem::{
        self,
        align_of,
        offset_of,
        size_of,
        ManuallyDrop, //
    },
    ptr::NonNull, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        mempool::{
            Element,
            KmallocBytes,
            Mempool, //
        }, //
    }, //
};

/// Frames in the reserve of a cipher. One would do, as who has one needs no other; with these, a few
/// CPUs go on when memory is short.
const RESERVE: usize = 4;

/// A C request of type `R`, and what it needs.
#[repr(C)]
struct Layout<H, R> {
    wait: bindings::crypto_wait,
    head: H,
    /// The last, as what belongs to the cipher, its context, follows.
    request: R,
}

/// Frames of one cipher.
pub(crate) struct Frames<H, R> {
    pool: Pin<KBox<Mempool<KmallocBytes>>>,
    _layout: PhantomData<fn() -> (H, R)>,
}

/// A request in memory of its own, wiped on drop.
///
/// # Invariants
///
/// `memory` holds a [`Layout`] whose `wait` is initialised, and whose other bytes were all zero when
/// it was made, with room for the context of a cipher behind it. No driver uses it.
pub(crate) struct Frame<'p, H, R> {
    memory: Element<&'p Mempool<KmallocBytes>>,
    _layout: PhantomData<(H, R)>,
}

/// Types that are valid if all their bytes are zero, and that need not be dropped.
///
/// # Safety
///
/// Both must be so.
pub(crate) unsafe trait Head {}

impl<H: Head, R> Frames<H, R> {
    /// Creates the pool for a cipher whose context has `reqsize` bytes.
    ///
    /// Context: Task. Sleeps.
    pub(crate) fn new(reqsize: u32) -> Result<Self> {
        let align = align_of::<Layout<H, R>>();
        // CAST: From 32 to 64 bits.
        let size = (offset_of!(Layout<H, R>, request) + size_of::<R>())
            .checked_add(reqsize as usize)
            .ok_or(EINVAL)?
            .max(size_of::<Layout<H, R>>())
            // So that `kmalloc()` aligns it as much.
            .checked_next_multiple_of(align)
            .ok_or(EINVAL)?;

        Ok(Self {
            pool: KBox::pin_init(Mempool::new(RESERVE, KmallocBytes::new(size)?), GFP_KERNEL)?,
            _layout: PhantomData,
        })
    }

    /// Takes a frame.
    ///
    /// Fails with [`ENOMEM`] if there is none and `gfp` may not sleep.
    ///
    /// Context: Any but NMI. Sleeps if `gfp` allows it.
    pub(crate) fn alloc(&self, gfp: Gfp) -> Result<Frame<'_, H, R>> {
        let memory = self.pool.alloc(gfp)?;
        let layout: NonNull<Layout<H, R>> = memory.as_byte_ptr().cast();

        // SAFETY: The memory is as large as a `Layout` at least, and aligned for one, see `new()`.
        unsafe { layout.write_bytes(0, 1) };
        // SAFETY: `wait` is valid for writes.
        unsafe { bindings::crypto_init_wait(&raw mut (*layout.as_ptr()).wait) };

        // INVARIANT: As written above; `new()` left room for the context.
        Ok(Frame {
            memory,
            _layout: PhantomData,
        })
    }
}

impl<'p, H: Head, R> Frame<'p, H, R> {
    /// Returns the address, valid as the type invariants say while `self` lives.
    #[inline]
    fn layout(&self) -> *mut Layout<H, R> {
        self.memory.as_byte_ptr().cast().as_ptr()
    }

    /// Returns what is not the request.
    #[inline]
    pub(crate) fn head(&mut self) -> &mut H {
        // SAFETY: No driver uses the frame, by the type invariants, and `H` was all zeros at
        // first, which is a value by the contract of `Head`.
        unsafe { &mut (*self.layout()).head }
    }

    /// Returns the request, with its context behind it.
    #[inline]
    pub(crate) fn request(&mut self) -> *mut R {
        // SAFETY: The frame is valid by the type invariants.
        unsafe { &raw mut (*self.layout()).request }
    }

    /// Returns what goes with [`Self::complete()`]: it must be the data of the request.
    #[inline]
    pub(crate) fn wait(&mut self) -> *mut bindings::crypto_wait {
        // SAFETY: The frame is valid by the type invariants.
        unsafe { &raw mut (*self.layout()).wait }
    }

    /// Passes the request on, and returns when the driver is done with it.
    ///
    /// Fails with [`EDEADLK`] as [`check_context()`] does.
    ///
    /// # Safety
    ///
    /// - `crypt` may be called with the request, which is filled in, and what it points to must stay
    ///   valid until this returns.
    /// - If the cipher `is_async`, the callback of the request must be `crypto_req_done()`, with
    ///   [`Self::wait()`] as its data; otherwise the cipher must not go on after `crypt` returned.
    pub(crate) unsafe fn run(
        &mut self,
        is_async: bool,
        crypt: unsafe extern "C" fn(*mut R) -> c_int,
    ) -> Result {
        check_context(is_async)?;
        // SAFETY: By the safety requirements.
        let error = unsafe { crypt(self.request()) };
        if !is_async {
            return to_result(error);
        }
        self.wait_unless_done(error)
    }

    /// Passes the request on, and leaves the waiting to others, unless the driver has no room for it.
    ///
    /// Gives the frame back with the result if the driver is done with it. Fails as [`Self::run()`].
    ///
    /// # Safety
    ///
    /// As for [`Self::run()`], but what the request points to must stay valid until what this returns
    /// is waited for or dropped.
    pub(crate) unsafe fn start(
        mut self,
        is_async: bool,
        crypt: unsafe extern "C" fn(*mut R) -> c_int,
    ) -> Started<'p, H, R> {
        if let Err(error) = check_context(is_async) {
            return Started::Done(self, Err(error));
        }

        // SAFETY: By the safety requirements.
        let error = unsafe { crypt(self.request()) };
        if is_async && error == EINPROGRESS.to_errno() {
            // INVARIANT: It goes on, by the meaning of this error.
            return Started::Pending(Pending(ManuallyDrop::new(self)));
        }
        let result = if is_async {
            self.wait_unless_done(error)
        } else {
            to_result(error)
        };
        Started::Done(self, result)
    }

    /// Waits until an asynchronous driver, which returned `error`, is done with the frame.
    #[inline]
    fn wait_unless_done(&mut self, error: c_int) -> Result {
        // The wait cannot be interrupted, so the driver is done with everything afterwards. A
        // request that it has no room for is backlogged, which needs no other treatment: the
        // callback ignores the note that its turn has come.
        //
        // SAFETY: `wait` is initialised by the type invariants, and what the callback completes, by
        // the safety requirements of who called the driver. It is ready for the next request again
        // when this returns.
        to_result(unsafe { bindings::crypto_wait_req(error, self.wait()) })
    }
}

/// Fails with [`EDEADLK`] where a request must not be passed on: in a hard interrupt, and if the
/// cipher `is_async`, so that it is waited for, also in a softirq, and with those or interrupts off.
#[inline]
fn check_context(is_async: bool) -> Result {
    // The FPU state of interrupted code would be lost, see `irq_fpu_usable()` on x86.
    //
    // SAFETY: Reads a counter of this CPU.
    if unsafe { bindings::in_hardirq() } {
        return Err(EDEADLK);
    }
    // SAFETY: Reads flags and counters of this CPU.
    if is_async && unsafe { bindings::in_interrupt_or_irqs_off() } {
        return Err(EDEADLK);
    }
    Ok(())
}

/// What became of a frame that was passed on.
pub(crate) enum Started<'p, H: Head, R> {
    /// The driver is done with it.
    Done(Frame<'p, H, R>, Result),
    /// The driver goes on with it.
    Pending(Pending<'p, H, R>),
}

/// A frame that a driver goes on with. Waits for that on drop.
///
/// # Invariants
///
/// All those of [`Frame`] hold as soon as `wait` of the frame is completed, and it will be, once.
pub(crate) struct Pending<'p, H: Head, R>(ManuallyDrop<Frame<'p, H, R>>);

impl<'p, H: Head, R> Pending<'p, H, R> {
    /// Waits until the driver is done with the frame, and returns that with the result.
    ///
    /// Context: Task. Sleeps.
    pub(crate) fn wait(mut self) -> (Frame<'p, H, R>, Result) {
        let result = self.0.wait_unless_done(EINPROGRESS.to_errno());
        // SAFETY: `self` is not used again, nor dropped.
        let frame = unsafe { ManuallyDrop::take(&mut self.0) };

        mem::forget(self);
        (frame, result)
    }

    /// Returns whether the driver is done with the frame.
    #[cfg(all(kscale_kunit, not(CONFIG_PREEMPT_RT)))]
    pub(crate) fn is_done(&mut self) -> bool {
        // SAFETY: The completion is initialised by the type invariants.
        unsafe { bindings::completion_done(&raw mut (*self.0.wait()).completion) }
    }
}

impl<H: Head, R> Drop for Pending<'_, H, R> {
    fn drop(&mut self) {
        // Whether it failed is of no interest to who drops it.
        let _ = self.0.wait_unless_done(EINPROGRESS.to_errno());
        // SAFETY: It is not used again.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl<H, R> Drop for Frame<'_, H, R> {
    fn drop(&mut self) {
        // SAFETY: The memory has so many bytes, and no driver uses it by the type invariants.
        unsafe {
            bindings::memzero_explicit(
                self.memory.as_byte_ptr().as_ptr().cast(),
                self.memory.size(),
            )
        };
    }
}

/// Calls `work` with interrupts off, and once more with softirqs off.
#[cfg(kscale_kunit)]
pub(crate) fn where_nobody_may_sleep<T>(mut work: impl FnMut() -> T) -> [T; 2] {
    let irqs_off = kernel::interrupt::local_interrupt_disable();
    let with_irqs_off = work();
    drop(irqs_off);

    // SAFETY: Undone below, by the same task.
    unsafe { bindings::local_bh_disable() };
    let with_softirqs_off = work();
    // SAFETY: They were disabled above, and interrupts are on.
    unsafe { bindings::local_bh_enable() };

    [with_irqs_off, with_softirqs_off]
}
