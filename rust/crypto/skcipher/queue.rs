// SPDX-License-Identifier: GPL-2.0

//! A queue of requests of a cipher.

use kernel::prelude::*;

use core::marker::PhantomData;

use crate::{
    bindings,
    block::bio::{
        Filled,
        Segment,
        SegmentMut, //
    },
    crypto::request_buf::{
        self,
        RequestPool,
        Started, //
    },
    mm::gfp::Gfp, //
};

use super::{
    request::{
        new_buf,
        Crypt,
        Data,
        Head,
        RequestBuf, //
    },
    Skcipher, //
};

/// The maximum number of requests of a queue in flight.
const MAX_STARTED: usize = 16;

/// A request in flight.
type Pending<'d> = request_buf::Pending<'d, Head, bindings::skcipher_request>;

impl Skcipher {
    /// Calls `work` with a queue of requests for this cipher, and waits for all requests.
    ///
    /// An asynchronous cipher processes some requests while the caller prepares others. A
    /// synchronous cipher completes each request when it is queued; a [`Request`](super::Request)
    /// is faster then.
    ///
    /// Fails with the error of `work`, or otherwise with the error of the first failed request.
    ///
    /// Context: Process or softirq context. May sleep if [`Skcipher::may_sleep`] and both softirqs
    /// and interrupts are enabled.
    pub fn queue<'d>(&'d self, work: impl FnOnce(&mut Queue<'d>) -> Result) -> Result {
        // INVARIANT: No request is in flight. The queue is dropped here: `work` cannot keep it, and
        // cannot swap it with a queue that outlives this call, as all queues are made here. `'d`
        // outlives this call, as does every lifetime parameter of a function.
        let mut queue = Queue {
            cipher: self,
            started: [const { None }; MAX_STARTED],
            oldest: 0,
            len: 0,
            spare: None,
            result: Ok(()),
            _data: PhantomData,
        };
        let result = work(&mut queue);

        while queue.wait_for_oldest().is_some() {}
        result.and(queue.result)
    }
}

/// A queue with several requests of a cipher in flight: see [`Skcipher::queue()`].
///
/// The data is borrowed for `'d`, which outlives the queue.
///
/// # Invariants
///
/// - From `oldest` on, modulo the size, `started` has `len` requests in FIFO order. The memory that
///   they point to is valid for `'d`.
/// - They and `spare` are set up for `cipher` by `new_buf()`.
/// - The queue is dropped before `'d` ends.
pub struct Queue<'d> {
    cipher: &'d Skcipher,
    /// Requests in flight, with the counter to reset if the request fails.
    started: [Option<(Pending<'d>, Option<&'d Filled>)>; MAX_STARTED],
    oldest: usize,
    len: usize,
    /// A completed request for reuse.
    spare: Option<RequestBuf<'d>>,
    /// The first error of the requests that were waited for.
    result: Result,
    /// Invariant in `'d`: data with a shorter lifetime is refused.
    _data: PhantomData<fn(&'d ()) -> &'d ()>,
}

impl<'d> Queue<'d> {
    /// Encrypts `src` into `dst`. The operation is complete when [`Skcipher::queue()`] returns.
    ///
    /// Waits for an older request if the queue is full, and for this request if the queue of the
    /// driver is full. Fails as [`Request::encrypt()`](super::Request::encrypt), and with the error
    /// of an older request that failed. This request is not started then, but requests in flight
    /// continue.
    ///
    /// Context: As [`Request::encrypt()`](super::Request::encrypt).
    pub fn encrypt(&mut self, src: Segment<'d>, dst: SegmentMut<'d>, iv: &[u8]) -> Result {
        let data = Data {
            src: Some(src.as_raw_parts()),
            dst: dst.as_raw_parts(),
        };

        // SAFETY: The segments are borrowed for `'d`.
        unsafe { self.start(&data, iv, bindings::crypto_skcipher_encrypt, dst.filled())? };
        // `dst` was written, or the counter is reset if the request fails later.
        dst.record_filled();
        Ok(())
    }

    /// Decrypts `data` in place. Otherwise as [`Self::encrypt()`].
    ///
    /// Fails with [`EINVAL`], too, if a part of `data` was not written yet, as
    /// [`Request::encrypt_in_place()`](super::Request::encrypt_in_place).
    ///
    /// Context: As [`Self::encrypt()`].
    pub fn decrypt_in_place(&mut self, data: SegmentMut<'d>, iv: &[u8]) -> Result {
        if !data.is_written() {
            return Err(EINVAL);
        }
        let data = Data {
            src: None,
            dst: data.as_raw_parts(),
        };

        // SAFETY: The segment is borrowed for `'d`.
        unsafe { self.start(&data, iv, bindings::crypto_skcipher_decrypt, None) }
    }

    /// Starts a request. If it fails after `start` has returned, `filled` is reset.
    ///
    /// # Safety
    ///
    /// The segments of `data` must be borrowed for `'d`. `crypt` must behave as
    /// `crypto_skcipher_encrypt()`.
    unsafe fn start(
        &mut self,
        data: &Data,
        iv: &[u8],
        crypt: Crypt,
        filled: Option<&'d Filled>,
    ) -> Result {
        self.result?;
        self.cipher.check(data, iv)?;
        let Some(pool) = self.cipher.pool() else {
            // SAFETY: The segments are borrowed for longer than this call.
            return unsafe { self.cipher.request().crypt(data, iv, crypt) };
        };
        let mut buf = self.buf(pool)?;
        let request = buf.request();

        // SAFETY: The request and the tables are initialised, see `new_buf()`. The data is valid
        // by this function's contract.
        unsafe { buf.head().set_crypt(request, data, iv)? };
        // SAFETY:
        // - The request is set up, and has a callback, see `new_buf()`.
        // - The memory that it points to is in the request buffer, or borrowed for `'d`. The queue
        //   drops the returned value before `'d` ends, by the type invariants.
        match unsafe { buf.start(self.cipher.is_async, crypt) } {
            Started::Done(buf, Ok(())) => {
                self.spare = Some(buf);
                Ok(())
            }
            Started::Done(_, result) => result,
            Started::Pending(pending) => {
                let free = self.oldest.wrapping_add(self.len) % MAX_STARTED;
                if let Some(free) = self.started.get_mut(free) {
                    // INVARIANT: The newest request is the last. `buf()` left room for it.
                    *free = Some((pending, filled));
                    self.len += 1;
                }
                Ok(())
            }
        }
    }

    /// Returns a request buffer that is set up for the cipher, and leaves room for a request in
    /// flight.
    fn buf(
        &mut self,
        pool: &'d RequestPool<Head, bindings::skcipher_request>,
    ) -> Result<RequestBuf<'d>> {
        if self.len < MAX_STARTED {
            if let Some(buf) = self.spare.take() {
                return Ok(buf);
            }
            // A queue that holds request buffers must not wait for another: all request buffers may
            // be held by such queues.
            let gfp = match self.len {
                0 => Gfp::noio_or_atomic(),
                _ => Gfp::NOWAIT,
            };
            match pool.alloc(gfp) {
                Ok(buf) => return Ok(new_buf(self.cipher, buf)),
                Err(error) if self.len == 0 => return Err(error),
                Err(_) => {}
            }
        }
        self.wait_for_oldest().ok_or(ENOMEM)
    }

    /// Waits for the oldest request, and returns its request buffer, or [`None`] without a request.
    fn wait_for_oldest(&mut self) -> Option<RequestBuf<'d>> {
        let (pending, filled) = self.started.get_mut(self.oldest)?.take()?;
        // INVARIANT: One request less, from the next one on.
        self.oldest = self.oldest.wrapping_add(1) % MAX_STARTED;
        self.len -= 1;

        let (buf, result) = pending.wait();
        if result.is_err() {
            filled.inspect(|filled| filled.reset());
        }
        self.result = self.result.and(result);
        Some(buf)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_skcipher_queue)]
mod tests {
    use super::*;

    use crate::{
        block::bio::Buffer,
        crypto::request_buf::in_atomic_contexts, //
    };

    use kernel::{
        ffi::c_int,
        str::CString,
        sync::atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        time::{
            delay::fsleep,
            Delta, //
        },
        workqueue, //
    };

    use core::ptr::with_exposed_provenance_mut;

    const LEN: u32 = 512;
    const IV: [u8; 16] = [3; 16];

    /// Returns a synchronous XTS with a key, and an asynchronous one: cryptd wraps implementations.
    fn ciphers() -> Result<(Skcipher, Skcipher)> {
        let mut cipher = Skcipher::new(c"xts(aes)")?;
        let driver = cipher.driver_name().to_str().map_err(|_| EINVAL)?;
        let mut later = Skcipher::new(&CString::try_from_fmt(fmt!("cryptd({driver})"))?)?;
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);

        cipher.set_key(&key)?;
        later.set_key(&key)?;
        Ok((cipher, later))
    }

    /// Returns `count` pages with different data.
    fn buffers(count: u8) -> Result<KVec<Buffer>> {
        let mut buffers = KVec::new();
        for i in 0..count {
            buffers.push(Buffer::new(&[i; LEN as usize], 0)?, GFP_KERNEL)?;
        }
        Ok(buffers)
    }

    /// Decrypts each buffer in place, until the first failure.
    fn decrypt<'d>(queue: &mut Queue<'d>, buffers: &'d mut [Buffer]) -> Result {
        buffers
            .iter_mut()
            .try_for_each(|data| queue.decrypt_in_place(data.segment_mut(0, LEN)?, &IV))
    }

    /// Completes the request with each of `errors`; `EINPROGRESS` means that it left the backlog.
    ///
    /// # Safety
    ///
    /// The request must have a callback.
    unsafe fn fail(request: *mut bindings::skcipher_request, errors: &[Error]) {
        // SAFETY: By this function's contract.
        let (complete, data) = unsafe { ((*request).base.complete, (*request).base.data) };

        for error in errors {
            // SAFETY: As above.
            unsafe { complete.map(|complete| complete(data, error.to_errno())) };
        }
    }

    /// A driver that fails the request before it returns `EINPROGRESS`.
    ///
    /// # Safety
    ///
    /// The request must have a callback.
    unsafe extern "C" fn fails_later(request: *mut bindings::skcipher_request) -> c_int {
        // SAFETY: By this function's contract.
        unsafe { fail(request, &[EIO]) };
        EINPROGRESS.to_errno()
    }

    /// As [`fails_later()`], but the request is backlogged first. It is refused if it must not be, as
    /// by `crypto_enqueue_request()` in `crypto/algapi.c`.
    ///
    /// # Safety
    ///
    /// As for [`fails_later()`].
    unsafe extern "C" fn has_no_room(request: *mut bindings::skcipher_request) -> c_int {
        // SAFETY: By this function's contract.
        if unsafe { (*request).base.flags } & bindings::CRYPTO_TFM_REQ_MAY_BACKLOG == 0 {
            return ENOSPC.to_errno();
        }
        // SAFETY: As above.
        unsafe { fail(request, &[EINPROGRESS, EIO]) };
        EBUSY.to_errno()
    }

    /// Starts a request with a fake driver function.
    fn start<'d>(
        queue: &mut Queue<'d>,
        buffer: &'d mut Buffer,
        crypt: Crypt,
        filled: Option<&'d Filled>,
    ) -> Result {
        let data = Data {
            src: None,
            dst: buffer.segment_mut(0, LEN)?.as_raw_parts(),
        };

        // SAFETY: The buffer is borrowed for `'d`, and `crypt` does not access it.
        unsafe { queue.start(&data, &IV, crypt, filled) }
    }

    #[test]
    fn several_requests_are_in_flight() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(5)?;
        let (first, rest) = buffers.split_at_mut(1);
        let mut under_way = 0;

        cipher.queue(|queue| {
            // The first request may sleep. The next ones reuse its request buffer, or allocate
            // without sleeping.
            decrypt(queue, first)?;
            // cryptd runs on the CPU of the submitter, so without preemption it makes no progress.
            // With `CONFIG_PREEMPT_RT` its locks sleep, so it makes progress.
            let cpu = (!cfg!(CONFIG_PREEMPT_RT)).then(crate::percpu::preempt_disable);
            let result = decrypt(queue, rest);
            let is_not_done =
                |(pending, _): &mut (Pending<'_>, _)| (!pending.is_done()).then_some(());
            let started = queue.started.iter_mut().flatten();
            under_way = started.filter_map(is_not_done).count();
            drop(cpu);
            result
        })?;
        assert!(under_way >= 4 || cfg!(CONFIG_PREEMPT_RT));
        Ok(())
    }

    static IS_COMPLETE: Atomic<bool> = Atomic::new(false);

    /// A driver that completes the request some milliseconds later.
    ///
    /// # Safety
    ///
    /// The request must have a callback, and must exist until that is called.
    unsafe extern "C" fn takes_time(request: *mut bindings::skcipher_request) -> c_int {
        // SAFETY: By this function's contract.
        let (complete, data) = unsafe {
            (
                (*request).base.complete,
                (*request).base.data.expose_provenance(),
            )
        };

        let later = workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            fsleep(Delta::from_millis(20));
            IS_COMPLETE.store(true, Release);
            // SAFETY: By this function's contract.
            unsafe { complete.map(|complete| complete(with_exposed_provenance_mut(data), 0)) };
        });
        match later {
            Ok(()) => EINPROGRESS.to_errno(),
            Err(_) => ENOMEM.to_errno(),
        }
    }

    #[test]
    fn the_drop_of_a_request_waits_for_the_driver() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(1)?;
        let mut was_complete = false;

        cipher.queue(|queue| {
            let buffer = buffers.first_mut().ok_or(EINVAL)?;
            start(queue, buffer, takes_time, None)?;
            let request = queue.started.first_mut().and_then(Option::take);
            // INVARIANT: No request is left.
            (queue.oldest, queue.len) = (0, 0);
            let was_in_flight = request.is_some();
            drop(request);
            was_complete = was_in_flight && IS_COMPLETE.load(Acquire);
            Ok(())
        })?;

        assert!(was_complete);
        Ok(())
    }

    #[test]
    fn requests_beyond_the_reserve_complete() -> Result {
        let (at_once, later) = ciphers()?;

        for cipher in [&at_once, &later] {
            let plaintexts = buffers(3 * MAX_STARTED as u8)?;
            let mut ciphertexts = buffers(3 * MAX_STARTED as u8)?;

            cipher.queue(|queue| {
                for (src, dst) in plaintexts.iter().zip(&mut ciphertexts) {
                    queue.encrypt(src.segment(0, LEN)?, dst.segment_mut(0, LEN)?, &IV)?;
                }
                Ok(())
            })?;
            for (src, dst) in plaintexts.iter().zip(&ciphertexts) {
                let mut expected = Buffer::new(&[], 0)?;
                at_once.request().encrypt(
                    src.segment(0, LEN)?,
                    expected.segment_mut(0, LEN)?,
                    &IV,
                )?;
                let len = LEN as usize;
                assert!(*dst.contents(0, len)? == *expected.contents(0, len)?);
            }

            cipher.queue(|queue| decrypt(queue, &mut ciphertexts))?;
            for (src, dst) in plaintexts.iter().zip(&ciphertexts) {
                let len = LEN as usize;
                assert!(*dst.contents(0, len)? == *src.contents(0, len)?);
            }
        }
        Ok(())
    }

    #[test]
    fn async_failure_fails_the_queue() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(2 * MAX_STARTED as u8)?;
        let mut started = 0;

        let result = cipher.queue(|queue| {
            let (first, rest) = buffers.split_first_mut().ok_or(EINVAL)?;
            start(queue, first, fails_later, None)?;
            for data in rest {
                queue.decrypt_in_place(data.segment_mut(0, LEN)?, &IV)?;
                started += 1;
            }
            Ok(())
        });
        assert_eq!(result, Err(EIO));
        // No request was started after the queue had to wait for the first.
        assert_eq!(started, MAX_STARTED);

        let result = cipher.queue(|queue| {
            let first = buffers.first_mut().ok_or(EINVAL)?;
            start(queue, first, fails_later, None)
        });
        assert_eq!(result, Err(EIO));
        Ok(())
    }

    #[test]
    fn failed_async_requests_fill_no_memory() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(2)?;
        let (first, rest) = buffers.split_first_mut().ok_or(EINVAL)?;
        let filled = Filled::new();

        for data in rest {
            // SAFETY: `filled` counts these bytes.
            let segment = unsafe { data.unfilled_segment_mut(LEN, &filled) }?;
            assert_eq!((segment.len(), filled.len()), (LEN, 0));
            segment.record_filled();
        }
        assert_eq!(filled.len(), LEN);
        let result = cipher.queue(|queue| start(queue, first, fails_later, Some(&filled)));
        assert_eq!((result, filled.len()), (Err(EIO), 0));
        Ok(())
    }

    #[test]
    fn encryption_in_flight_keeps_its_counter() -> Result {
        let (_, cipher) = ciphers()?;
        let (src, mut dst) = (Buffer::new(&[1; LEN as usize], 0)?, Buffer::new(&[], 0)?);
        let filled = Filled::new();
        let mut has_counter = false;

        cipher.queue(|queue| {
            // SAFETY: `filled` counts these bytes.
            let dst = unsafe { dst.unfilled_segment_mut(LEN, &filled) }?;
            queue.encrypt(src.segment(0, LEN)?, dst, &IV)?;
            let mut started = queue.started.iter().flatten();
            has_counter = started.any(|(_, counter)| counter.is_some());
            Ok(())
        })?;
        assert!(has_counter);
        assert_eq!(filled.len(), LEN);
        Ok(())
    }

    #[test]
    fn success_keeps_an_earlier_failure() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(3)?;

        // All requests are waited for at the end, the failed one first.
        let result = cipher.queue(|queue| {
            let (first, rest) = buffers.split_first_mut().ok_or(EINVAL)?;
            start(queue, first, fails_later, None)?;
            decrypt(queue, rest)
        });
        assert_eq!(result, Err(EIO));
        Ok(())
    }

    #[test]
    fn failure_of_any_request_fails_the_queue() -> Result {
        let (_, cipher) = ciphers()?;

        for failing in 0..3 {
            let mut buffers = buffers(3)?;
            let result = cipher.queue(|queue| {
                for (number, data) in buffers.iter_mut().enumerate() {
                    if number == failing {
                        start(queue, data, fails_later, None)?;
                    } else {
                        queue.decrypt_in_place(data.segment_mut(0, LEN)?, &IV)?;
                    }
                }
                Ok(())
            });
            assert_eq!(result, Err(EIO));
        }
        Ok(())
    }

    #[test]
    fn error_of_the_caller_comes_first() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(1)?;

        let result = cipher.queue(|queue| {
            let buffer = buffers.first_mut().ok_or(EINVAL)?;
            start(queue, buffer, fails_later, None)?;
            Err(EAGAIN)
        });
        assert_eq!(result, Err(EAGAIN));
        Ok(())
    }

    #[test]
    fn full_queue_waits_for_the_oldest_request() -> Result {
        let (_, cipher) = ciphers()?;
        let mut buffers = buffers(2)?;
        let mut results = [Ok(()); 2];

        let result = cipher.queue(|queue| {
            let (first, rest) = buffers.split_first_mut().ok_or(EINVAL)?;
            results = [start(queue, first, has_no_room, None), decrypt(queue, rest)];
            Ok(())
        });
        assert_eq!(results, [Err(EIO), Ok(())]);
        assert_eq!(result, Ok(()));
        Ok(())
    }

    #[test]
    fn invalid_requests_are_rejected() -> Result {
        let (at_once, later) = ciphers()?;
        let without_key = Skcipher::new(c"xts(aes)")?;

        for (cipher, len, iv_len, error) in [
            (&at_once, LEN, 15, EINVAL),
            (&later, LEN, 15, EINVAL),
            (&later, LEN - 1, 16, EINVAL),
            (&without_key, LEN, 16, ENOKEY),
        ] {
            let iv = KVec::from_elem(0, iv_len, GFP_KERNEL)?;
            let mut data = Buffer::new(&[7; LEN as usize], 0)?;

            let result =
                cipher.queue(|queue| queue.decrypt_in_place(data.segment_mut(0, len)?, &iv));
            assert_eq!(result, Err(error));
        }
        let mut buffers = buffers(1)?;
        for result in in_atomic_contexts(|| later.queue(|queue| decrypt(queue, &mut buffers))) {
            assert_eq!(result, Err(EDEADLK));
        }
        Ok(())
    }
}
