// SPDX-License-Identifier: GPL-2.0

//! Crypto requests in their own allocation.
//!
//! A driver may use a request after the call that submitted it has returned, on another CPU or by
//! DMA. So the request, its initialisation vector and its tables must not be on a stack. A
//! [`RequestBuf`] is a single allocation for all of them, from a pool of the cipher.
//!
//! The submitter of a request buffer waits until the driver has completed it, at once or through a
//! [`Pending`]. So the request buffer, and the memory that it points to, stay valid until then.

use kernel::{
    error::to_result,
    ffi::c_int,
    num::casts::IntoSafeCast,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    mem::{
        self,
        align_of,
        needs_drop,
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

/// The number of request buffers in the reserve of a cipher. One is enough for forward progress,
/// unless a task holds a request while it waits for another one. With more, several CPUs make
/// progress when memory is short.
const RESERVE: usize = 4;

/// A C request of type `R`, with the memory that it points to.
#[repr(C)]
struct Layout<H, R> {
    wait: bindings::crypto_wait,
    head: H,
    /// The last field, as the context of the cipher follows.
    request: R,
}

/// The pool of request buffers of a cipher.
pub(crate) struct RequestPool<H, R> {
    pool: Pin<KBox<Mempool<KmallocBytes>>>,
    _layout: PhantomData<fn() -> (H, R)>,
}

/// A request in its own allocation, wiped on drop.
///
/// # Invariants
///
/// `memory` holds a [`Layout`], followed by room for the context of a cipher. Its `wait` is
/// initialised, and its other bytes were all zero when it was made. No driver uses it.
pub(crate) struct RequestBuf<'p, H, R> {
    memory: Element<&'p Mempool<KmallocBytes>>,
    _layout: PhantomData<(H, R)>,
}

impl<H: Zeroable, R> RequestPool<H, R> {
    /// Creates the pool for a cipher whose context has `reqsize` bytes.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn new(reqsize: u32) -> Result<Self> {
        const {
            assert!(
                !needs_drop::<H>(),
                "a request buffer does not drop its head"
            )
        };
        let align = align_of::<Layout<H, R>>();
        let size = (offset_of!(Layout<H, R>, request) + size_of::<R>())
            .checked_add(reqsize.into_safe_cast())
            .ok_or(EINVAL)?
            .max(size_of::<Layout<H, R>>())
            // With this size, `kmalloc()` returns memory with the alignment of a `Layout`.
            .checked_next_multiple_of(align)
            .ok_or(EINVAL)?;

        Ok(Self {
            pool: KBox::pin_init(Mempool::new(RESERVE, KmallocBytes::new(size)?), GFP_KERNEL)?,
            _layout: PhantomData,
        })
    }

    /// Allocates a request buffer.
    ///
    /// Fails with [`ENOMEM`] if there is no request buffer and `gfp` may not sleep.
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    pub(crate) fn alloc(&self, gfp: Gfp) -> Result<RequestBuf<'_, H, R>> {
        let memory = self.pool.alloc(gfp)?;
        let layout: NonNull<Layout<H, R>> = memory.as_byte_ptr().cast();

        // SAFETY: The memory has at least the size and the alignment of a `Layout`, see `new()`.
        unsafe { layout.write_bytes(0, 1) };
        // SAFETY: `wait` is valid for writes.
        unsafe { bindings::crypto_init_wait(&raw mut (*layout.as_ptr()).wait) };

        // INVARIANT: As initialised above; `new()` left room for the context.
        Ok(RequestBuf {
            memory,
            _layout: PhantomData,
        })
    }
}

impl<'p, H: Zeroable, R> RequestBuf<'p, H, R> {
    /// Returns the address of the layout, valid by the type invariants while `self` lives.
    #[inline]
    fn layout(&self) -> *mut Layout<H, R> {
        self.memory.as_byte_ptr().cast().as_ptr()
    }

    /// Returns the memory that the request points to.
    #[inline]
    pub(crate) fn head(&mut self) -> &mut H {
        // SAFETY: No driver uses the request buffer, by the type invariants. `H` was all-zero
        // initially, which is a valid value as it is `Zeroable`.
        unsafe { &mut (*self.layout()).head }
    }

    /// Returns the request, which is followed by its context.
    #[inline]
    pub(crate) fn request(&mut self) -> *mut R {
        // SAFETY: The request buffer is valid by the type invariants.
        unsafe { &raw mut (*self.layout()).request }
    }

    /// Returns the wait. It must be the callback data of the request.
    #[inline]
    pub(crate) fn wait(&mut self) -> *mut bindings::crypto_wait {
        // SAFETY: The request buffer is valid by the type invariants.
        unsafe { &raw mut (*self.layout()).wait }
    }

    /// Submits the request, and returns when the driver has completed it.
    ///
    /// Fails with [`EDEADLK`] as [`check_context()`] does.
    ///
    /// # Safety
    ///
    /// - Calling `crypt` with the request must be allowed. The request must be filled in, and the
    ///   memory that it points to must stay valid until this returns.
    /// - If the cipher `is_async`, the callback of the request must be `crypto_req_done()`, with
    ///   [`Self::wait()`] as its data. Otherwise the cipher must not use the request after `crypt`
    ///   returned.
    pub(crate) unsafe fn run(
        &mut self,
        is_async: bool,
        crypt: unsafe extern "C" fn(*mut R) -> c_int,
    ) -> Result {
        check_context(is_async)?;
        // SAFETY: By this function's contract.
        let error = unsafe { crypt(self.request()) };
        if !is_async {
            return to_result(error);
        }
        self.wait_unless_done(error)
    }

    /// Submits the request without waiting for it, unless the driver's queue is full.
    ///
    /// Returns the request buffer and the result if the driver has completed it. Fails as
    /// [`Self::run()`].
    ///
    /// # Safety
    ///
    /// As for [`Self::run()`], but the memory that the request points to must stay valid until the
    /// returned value is waited for or dropped.
    pub(crate) unsafe fn start(
        mut self,
        is_async: bool,
        crypt: unsafe extern "C" fn(*mut R) -> c_int,
    ) -> Started<'p, H, R> {
        if let Err(error) = check_context(is_async) {
            return Started::Done(self, Err(error));
        }

        // SAFETY: By this function's contract.
        let error = unsafe { crypt(self.request()) };
        if is_async && error == EINPROGRESS.to_errno() {
            // INVARIANT: `EINPROGRESS` means that the driver still uses the request buffer.
            return Started::Pending(Pending(ManuallyDrop::new(self)));
        }
        let result = if is_async {
            self.wait_unless_done(error)
        } else {
            to_result(error)
        };
        Started::Done(self, result)
    }

    /// Waits until an asynchronous driver, which returned `error`, has completed the request
    /// buffer.
    #[inline]
    fn wait_unless_done(&mut self, error: c_int) -> Result {
        // The wait is uninterruptible, so the driver has completed the request afterwards. A
        // request that the driver has no room for is backlogged. That needs no special case: the
        // callback ignores the notification that the driver has dequeued it.
        //
        // SAFETY: `wait` is initialised by the type invariants, and the callback completes it, by
        // the contract of the function that called the driver. It is ready for the next request
        // when this returns.
        to_result(unsafe { bindings::crypto_wait_req(error, self.wait()) })
    }
}

/// Fails with [`EDEADLK`] in contexts that must not submit a request: in a hard interrupt, and if
/// the cipher `is_async`, also in a softirq and with softirqs or interrupts disabled.
#[inline]
fn check_context(is_async: bool) -> Result {
    // The cipher would overwrite the FPU state of interrupted code, see `irq_fpu_usable()` on x86.
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

/// The result of submitting a request buffer.
pub(crate) enum Started<'p, H: Zeroable, R> {
    /// The driver has completed the request buffer.
    Done(RequestBuf<'p, H, R>, Result),
    /// The driver still uses the request buffer.
    Pending(Pending<'p, H, R>),
}

/// A request buffer in flight. Its drop waits for the driver.
///
/// # Invariants
///
/// All invariants of [`RequestBuf`] hold after `wait` of the request buffer is completed, which
/// happens exactly once.
pub(crate) struct Pending<'p, H: Zeroable, R>(ManuallyDrop<RequestBuf<'p, H, R>>);

impl<'p, H: Zeroable, R> Pending<'p, H, R> {
    /// Waits until the driver has completed the request buffer, and returns the request buffer and
    /// the result.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn wait(mut self) -> (RequestBuf<'p, H, R>, Result) {
        let result = self.0.wait_unless_done(EINPROGRESS.to_errno());
        // SAFETY: `self` is not used again, and not dropped.
        let buf = unsafe { ManuallyDrop::take(&mut self.0) };

        mem::forget(self);
        (buf, result)
    }

    /// Returns whether the driver has completed the request buffer.
    #[cfg(kscale_kunit)]
    pub(crate) fn is_done(&mut self) -> bool {
        // SAFETY: The completion is initialised by the type invariants.
        unsafe { bindings::completion_done(&raw mut (*self.0.wait()).completion) }
    }
}

impl<H: Zeroable, R> Drop for Pending<'_, H, R> {
    fn drop(&mut self) {
        // A dropped request has no consumer of its result.
        let _ = self.0.wait_unless_done(EINPROGRESS.to_errno());
        // SAFETY: `self.0` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl<H, R> Drop for RequestBuf<'_, H, R> {
    fn drop(&mut self) {
        // SAFETY: The memory has `size()` bytes, and no driver uses it by the type invariants.
        unsafe {
            bindings::memzero_explicit(
                self.memory.as_byte_ptr().as_ptr().cast(),
                self.memory.size(),
            )
        };
    }
}

/// Calls `work` with interrupts disabled, and then with softirqs disabled.
#[cfg(kscale_kunit)]
pub(crate) fn in_atomic_contexts<T>(mut work: impl FnMut() -> T) -> [T; 2] {
    let irqs_off = kernel::interrupt::local_interrupt_disable();
    let with_irqs_off = work();
    drop(irqs_off);

    // SAFETY: Softirqs are enabled again below, by the same task.
    unsafe { bindings::local_bh_disable() };
    let with_softirqs_off = work();
    // SAFETY: Softirqs were disabled above, and interrupts are enabled.
    unsafe { bindings::local_bh_enable() };

    [with_irqs_off, with_softirqs_off]
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_request_buf)]
mod tests {
    use super::*;

    #[test]
    fn reused_memory_is_zeroed() -> Result {
        let pool = RequestPool::<[u8; 100], bindings::skcipher_request>::new(0)?;
        let size = pool.alloc(Gfp::KERNEL)?.memory.size();
        let used = || KVec::from_elem(0xa5_u8, size, GFP_KERNEL);
        // kmalloc() returns freed memory of this size first.
        drop([used()?, used()?, used()?, used()?]);

        let new = || pool.alloc(Gfp::KERNEL);
        for mut buf in [new()?, new()?, new()?, new()?] {
            assert_eq!(*buf.head(), [0; 100]);
        }
        Ok(())
    }

    /// The context has the key stream or the state of a cipher.
    #[test]
    fn drop_wipes_the_context_of_the_cipher() -> Result {
        const LEN: usize = 200;
        // CAST: The constant is 200.
        let pool = RequestPool::<[u8; 100], bindings::skcipher_request>::new(LEN as u32)?;
        let context = |buf: &mut RequestBuf<'_, _, bindings::skcipher_request>| {
            buf.request().wrapping_add(1).cast::<u8>()
        };

        // `kmalloc()` returns the freed memory, unless another task gets it or it is kept back.
        for _ in 0..10 {
            let mut buf = pool.alloc(Gfp::KERNEL)?;
            let bytes = context(&mut buf);
            // The kernel overwrites a part of freed memory.
            let is_old = |index: &usize| {
                // SAFETY: The context follows the request. The memory has any values.
                unsafe { bytes.add(*index).read_volatile() == 0xc3 }
            };
            assert!((0..LEN).filter(is_old).count() < LEN / 2);
            // SAFETY: As above. No driver uses the request.
            unsafe { bytes.write_bytes(0xc3, LEN) };
        }
        Ok(())
    }
}
