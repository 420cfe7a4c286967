// SPDX-License-Identifier: GPL-2.0

//! Table lines: arguments, devices, limits and output.

use kernel::{
    error::to_result,
    fmt::{
        self,
        Write as _, //
    },
    prelude::*, //
};

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::bindings;

/// Why a table line was refused: what `dmsetup` prints to the kernel log, and the error code.
pub struct CtrError {
    message: Option<&'static CStr>,
    error: Error,
}

impl CtrError {
    /// Refuses a line with [`EINVAL`].
    pub const fn invalid(message: &'static CStr) -> Self {
        Self::new(message, EINVAL)
    }

    /// Refuses a line with `error`.
    pub const fn new(message: &'static CStr, error: Error) -> Self {
        Self {
            message: Some(message),
            error,
        }
    }

    /// Returns the error code.
    pub fn error(&self) -> Error {
        self.error
    }

    /// Returns the message.
    pub fn message(&self) -> Option<&'static CStr> {
        self.message
    }
}

impl<E: Into<Error>> From<E> for CtrError {
    fn from(error: E) -> Self {
        Self {
            message: None,
            error: error.into(),
        }
    }
}

/// The arguments of a table line or of a message.
///
/// # Invariants
///
/// `argv` points to `argc` pointers to NUL-terminated strings, all of which are valid, and nobody
/// else's, for `'a`; it may be anything if `argc` is 0.
pub struct Args<'a> {
    argv: *mut *mut kernel::ffi::c_char,
    argc: usize,
    _strings: PhantomData<&'a mut CStr>,
}

impl<'a> Args<'a> {
    /// Wraps what device mapper passes.
    ///
    /// # Safety
    ///
    /// `argc` and `argv` must be what device mapper passed to `ctr` or `message`, of a call that
    /// `'a` does not outlive.
    pub(super) unsafe fn new(
        argc: kernel::ffi::c_uint,
        argv: *mut *mut kernel::ffi::c_char,
    ) -> Self {
        // INVARIANT: `dm_split_args()` in `drivers/md/dm-table.c` makes just that, in a buffer of
        // the call's own; `argv` may be NULL if `argc` is 0.
        Self {
            argv,
            // CAST: From 32 to 64 bits.
            argc: argc as usize,
            _strings: PhantomData,
        }
    }

    /// Returns the next argument, or fails with the message `missing`.
    ///
    /// Context: Any.
    pub fn required(&mut self, missing: &'static CStr) -> Result<&'a CStr, CtrError> {
        self.next().ok_or(CtrError::invalid(missing))
    }

    /// Returns the next argument as a decimal number, or fails with the message `invalid`.
    ///
    /// The offending argument is logged.
    ///
    /// Context: Any.
    pub fn parsed<N: core::str::FromStr>(&mut self, invalid: &'static CStr) -> Result<N, CtrError> {
        let arg = self.required(invalid)?;
        let number = arg
            .to_str()
            .ok()
            // `from_str` takes a plus sign, which C does not.
            .filter(|arg| arg.starts_with(|first: char| first.is_ascii_digit()))
            .and_then(|arg| arg.parse().ok());
        number.ok_or_else(|| {
            let message = invalid.to_str().unwrap_or_default();
            pr_err!("{}: '{}'\n", message, crate::dm::table::Printable(arg));
            CtrError::invalid(invalid)
        })
    }

    /// Returns the next argument, which is overwritten with `0`s when the result is dropped.
    ///
    /// Context: Any.
    pub fn secret(&mut self, missing: &'static CStr) -> Result<SecretArg<'a>, CtrError> {
        let arg = self.next_raw().ok_or(CtrError::invalid(missing))?;
        // SAFETY: `arg` is NUL-terminated, by the type invariants.
        let len = unsafe { CStr::from_char_ptr(arg.as_ptr()) }
            .to_bytes()
            .len();
        // SAFETY: `arg` has `len` bytes before the NUL, which are valid for `'a` and nobody
        // else's by the type invariants; `next_raw()` gives each argument once.
        let bytes = unsafe { core::slice::from_raw_parts_mut(arg.as_ptr().cast::<u8>(), len) };
        Ok(SecretArg(bytes))
    }

    /// Checks that there are no more arguments, or fails with the message `too_many`.
    ///
    /// Context: Any.
    pub fn finish(&self, too_many: &'static CStr) -> Result<(), CtrError> {
        match self.argc {
            0 => Ok(()),
            _ => Err(CtrError::invalid(too_many)),
        }
    }

    /// Returns how many arguments are left.
    ///
    /// Context: Any.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.argc
    }

    fn next_raw(&mut self) -> Option<NonNull<kernel::ffi::c_char>> {
        self.argc = self.argc.checked_sub(1)?;
        // SAFETY: There was an argument left, so `argv` points to one, by the type invariants.
        let arg = unsafe { *self.argv };
        // SAFETY: As above, so one further on is inside the array or at its end.
        // INVARIANT: One argument less, one further on.
        self.argv = unsafe { self.argv.add(1) };
        NonNull::new(arg)
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        let arg = self.next_raw()?;
        // SAFETY: `arg` is NUL-terminated and valid for `'a`, by the type invariants; `next_raw()`
        // gives each argument once, so nobody writes to it.
        Some(unsafe { CStr::from_char_ptr(arg.as_ptr()) })
    }
}

/// An argument that holds a key; its place in the table line is overwritten on drop.
pub struct SecretArg<'a>(&'a mut [u8]);

impl SecretArg<'_> {
    /// Returns the argument, without the terminating NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0
    }
}

impl Drop for SecretArg<'_> {
    fn drop(&mut self) {
        for byte in self.0.iter_mut() {
            // As dm-crypt does, so that the length still shows.
            //
            // SAFETY: `byte` is a reference, so it is valid for writes.
            unsafe { core::ptr::write_volatile(byte, b'0') };
        }
    }
}

/// Prints an argument with everything but printable ASCII escaped.
pub(super) struct Printable<'a>(pub(super) &'a CStr);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self
            .0
            .to_bytes()
            .iter()
            .flat_map(|&b| core::ascii::escape_default(b))
        {
            f.write_char(char::from(byte))?;
        }
        Ok(())
    }
}

/// A device of a target: a number that means something to that target only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device(u32);

/// The devices of a target.
///
/// # Invariants
///
/// Each `dev` came from `dm_get_device()` for the target, and was not put, and `bdev` is its block
/// device, which is open. The `bdev` stays the same even if a target written in C makes device mapper
/// reopen the device for another mode, `upgrade_mode()`.
pub(super) struct Devices(KVec<OpenDevice>);

struct OpenDevice {
    dev: *mut bindings::dm_dev,
    bdev: *mut bindings::block_device,
    start_sectors: u64,
}

// SAFETY: The devices may be put by another task than the one that got them: `dtr` may run on any.
unsafe impl Send for Devices {}

// SAFETY: Nothing in a `dm_dev` changes while it is held, and `&Devices` only reads it.
unsafe impl Sync for Devices {}

impl Devices {
    pub(super) const fn new() -> Self {
        // INVARIANT: Holds vacuously.
        Self(KVec::new())
    }

    fn get(&self, device: Device) -> Option<&OpenDevice> {
        // CAST: From 32 to 64 bits.
        self.0.get(device.0 as usize)
    }

    /// Returns the block device, open as long as `self` is borrowed and longer: until `put_all()`.
    #[inline]
    pub(super) fn bdev(&self, device: Device) -> Option<*mut bindings::block_device> {
        Some(self.get(device)?.bdev)
    }

    /// Calls `func` for each device, with its first sector, until it returns something but 0.
    pub(super) fn iterate(
        &self,
        mut func: impl FnMut(*mut bindings::dm_dev, u64) -> kernel::ffi::c_int,
    ) -> kernel::ffi::c_int {
        self.0
            .iter()
            .map(|open| func(open.dev, open.start_sectors))
            .find(|&result| result != 0)
            .unwrap_or(0)
    }

    /// Puts the devices.
    ///
    /// # Safety
    ///
    /// `ti` must be the target that they were got for, and the caller its `ctr` or `dtr`.
    pub(super) unsafe fn put_all(self, ti: *mut bindings::dm_target) {
        for open in self.0 {
            // SAFETY: The device was got for `ti` and not put yet, by the type invariants, and
            // `dm_put_device()` may be called here, by this function's contract.
            unsafe { bindings::dm_put_device(ti, open.dev) };
        }
    }
}

/// The table line that is being constructed.
///
/// # Invariants
///
/// `ti` is a target whose `ctr` is running. `devices` were got for it.
pub struct Table<'a> {
    ti: *mut bindings::dm_target,
    pub(super) devices: Devices,
    _target: PhantomData<&'a mut bindings::dm_target>,
}

impl Table<'_> {
    /// Wraps the target whose `ctr` is running.
    ///
    /// # Safety
    ///
    /// The caller must be `ctr` of `ti`, and put the devices that are got.
    pub(super) unsafe fn new(ti: *mut bindings::dm_target) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            ti,
            devices: Devices::new(),
            _target: PhantomData,
        }
    }

    /// Returns the first sector of the line, on the mapped device.
    ///
    /// Context: Any.
    pub fn begin_sectors(&self) -> u64 {
        // SAFETY: `ti` is alive by the type invariants.
        unsafe { (*self.ti).begin }
    }

    /// Returns the length of the line in sectors, at least 1.
    ///
    /// Context: Any.
    pub fn len_sectors(&self) -> u64 {
        // SAFETY: `ti` is alive by the type invariants.
        unsafe { (*self.ti).len }
    }

    /// Opens a device of which the line will use as many sectors as it has, from `start_sectors`
    /// on.
    ///
    /// Device mapper refuses the table if the device is shorter than that, and takes the device's
    /// limits into account (`iterate_devices`). The device is closed after the target was dropped.
    ///
    /// Fails as opening the device does, for example with [`ENODEV`].
    ///
    /// Context: Process context; sleeps. C: `dm_get_device()` in `drivers/md/dm-table.c`.
    pub fn get_device(&mut self, path: &CStr, start_sectors: u64) -> Result<Device> {
        self.devices.0.reserve(1, GFP_KERNEL)?;
        let index = u32::try_from(self.devices.0.len()).map_err(|_| EINVAL)?;

        // SAFETY: `ti` is alive by the type invariants, and its table is set, see
        // `dm_table_add_target()` in `drivers/md/dm-table.c`.
        let mode = unsafe { bindings::dm_table_get_mode((*self.ti).table) };
        let mut dev = core::ptr::null_mut();
        // SAFETY:
        // - `ti` is a target whose `ctr` is running, by the type invariants.
        // - `path` is NUL-terminated, and `dev` can be written to.
        // - `mode` is the table's, so no target of ours makes device mapper reopen the device for a
        //   wider one, which leaves other targets with stale pointers, `upgrade_mode()`.
        to_result(unsafe { bindings::dm_get_device(self.ti, path.as_char_ptr(), mode, &mut dev) })?;
        // SAFETY: The device was just got, so it is open.
        let bdev = unsafe { (*dev).bdev };
        // INVARIANT: The device was just got for `ti`. There is room for it.
        self.devices
            .0
            .push_within_capacity(OpenDevice {
                dev,
                bdev,
                start_sectors,
            })
            .map_err(|_| ENOMEM)?;
        Ok(Device(index))
    }

    /// Asks for flushes: bios for which [`MapBio::is_flush()`] is true.
    ///
    /// Context: Any.
    ///
    /// [`MapBio::is_flush()`]: super::MapBio::is_flush
    pub fn send_flush_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_flush_bios = 1 };
    }

    /// Asks for discards, if the devices below support them.
    ///
    /// Context: Any.
    pub fn send_discard_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).num_discard_bios = 1 };
    }

    /// Limits how many bios of swap are in flight, for a target that needs memory for each.
    ///
    /// Context: Any.
    pub fn limit_swap_bios(&mut self) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { bindings::dm_target::set_limit_swap_bios_raw(self.ti, true) };
    }

    /// Sets what is right for every target.
    ///
    /// `per_io_data_size` is the size of the per-bio data in bytes.
    pub(super) fn set_per_bio(&mut self, per_io_data_size: u32) {
        // SAFETY: `ti` is alive and this is its `ctr`, by the type invariants.
        unsafe { (*self.ti).per_io_data_size = per_io_data_size };
        // SAFETY: As above.
        unsafe { bindings::dm_target::set_accounts_remapped_io_raw(self.ti, true) };
    }
}

/// The queue limits of a mapped device, in [`Target::io_hints()`].
///
/// # Invariants
///
/// `limits` may be written to for `'a`.
///
/// [`Target::io_hints()`]: super::Target::io_hints
pub struct Limits<'a> {
    limits: NonNull<bindings::queue_limits>,
    _limits: PhantomData<&'a mut bindings::queue_limits>,
}

impl Limits<'_> {
    /// Wraps the limits.
    ///
    /// # Safety
    ///
    /// `limits` must be valid for reads and writes for as long as `self` lives.
    pub(super) unsafe fn new(limits: NonNull<bindings::queue_limits>) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            limits,
            _limits: PhantomData,
        }
    }

    /// Raises the block sizes and the minimum I/O size to at least `bytes`.
    ///
    /// Context: Any. C: `dm_stack_bs_limits()`.
    pub fn stack_block_size(&mut self, bytes: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { bindings::dm_stack_bs_limits(self.limits.as_ptr(), bytes.get()) };
    }

    /// Lets nobody poll for the completion of bios.
    pub(super) fn disable_polling(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).features &= !bindings::BLK_FEAT_POLL };
    }

    /// Asks that memory for direct I/O be aligned to the logical block size.
    ///
    /// Context: Any.
    pub fn align_dma_to_logical_block_size(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            (*limits).dma_alignment = (*limits).logical_block_size.saturating_sub(1);
        }
    }
}

/// Text for userspace, in the status and message callbacks; too long a text is cut.
///
/// Device mapper notices a text that fills the buffer, and userspace asks again with a larger one.
///
/// # Invariants
///
/// `buf[..len]` is the text, `buf[len]` is NUL, unless `buf` is empty.
pub struct Output<'a> {
    buf: &'a mut [u8],
    len: usize,
    devices: &'a Devices,
}

impl<'a> Output<'a> {
    /// Wraps the buffer.
    pub(super) fn new(buf: &'a mut [u8], devices: &'a Devices) -> Self {
        if let Some(first) = buf.first_mut() {
            *first = 0;
        }
        // INVARIANT: No text yet, and a NUL if there is room for one.
        Self {
            buf,
            len: 0,
            devices,
        }
    }

    /// Returns the text with its NUL.
    pub(super) fn as_bytes_with_nul(&self) -> &[u8] {
        self.buf.get(..=self.len).unwrap_or_default()
    }

    /// Tells whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device's number as `major:minor`, or [`None`] if it is another target's.
    ///
    /// Context: Any.
    pub fn device_name(&self, device: Device) -> Option<&'a str> {
        let dev = self.devices.get(device)?.dev;
        // SAFETY: The device was not put, by the invariants of `Devices`, and `name` is written
        // before `dm_get_device()` returns and NUL-terminated, see `format_dev_t()`.
        let name = unsafe { CStr::from_char_ptr((*dev).name.as_ptr()) };
        name.to_str().ok()
    }
}

impl fmt::Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buf.len().saturating_sub(self.len).saturating_sub(1);
        let count = text.len().min(room);
        let end = self.len + count;

        if let (Some(to), Some(from)) = (
            self.buf.get_mut(self.len..end),
            text.as_bytes().get(..count),
        ) {
            to.copy_from_slice(from);
        }
        if let Some(nul) = self.buf.get_mut(end) {
            *nul = 0;
        }
        // INVARIANT: `count` bytes more, and a NUL behind them; none if there was no room.
        self.len = end;
        Ok(())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_table)]
mod tests {
    use super::*;

    use kernel::{
        ffi::c_char,
        str::CString, //
    };

    const MISSING: &CStr = c"missing";
    const INVALID: &CStr = c"kscale_dm_table: invalid, as it should be";

    /// Calls `func` with the words of `line` as arguments, and returns the words as they are then.
    fn with_args<R>(line: &[&str], func: impl FnOnce(Args<'_>) -> R) -> Result<(R, KVec<CString>)> {
        let mut words = KVec::new();
        for word in line {
            words.push(CString::try_from_fmt(fmt!("{}", *word))?, GFP_KERNEL)?;
        }
        let mut argv = KVec::<*mut c_char>::new();
        for word in &mut words {
            argv.push(
                core::ptr::from_ref::<CStr>(word)
                    .cast::<c_char>()
                    .cast_mut(),
                GFP_KERNEL,
            )?;
        }
        // SAFETY: `argv` has `line.len()` pointers to NUL-terminated strings, which nobody else
        // uses until `func` returned.
        let args = unsafe { Args::new(line.len() as kernel::ffi::c_uint, argv.as_mut_ptr()) };
        let result = func(args);
        Ok((result, words))
    }

    #[test]
    fn arguments_come_in_order_and_end() -> Result {
        let (seen, _) = with_args(&["a", "", "c"], |mut args| {
            let first = args.next().map(CStr::to_bytes) == Some(b"a");
            let second = args.next().map(CStr::to_bytes) == Some(b"");
            let third = args.len() == 1 && args.next().map(CStr::to_bytes) == Some(b"c");
            let end = args.next().is_none() && args.next().is_none() && args.len() == 0;
            (first, second, third, end)
        })?;
        assert_eq!(seen, (true, true, true, true));
        Ok(())
    }

    #[test]
    fn no_arguments_may_be_a_null_pointer() {
        // SAFETY: With no arguments the pointer may be anything.
        let mut args = unsafe { Args::new(0, core::ptr::null_mut()) };
        assert!(args.next().is_none());
        assert!(args.finish(INVALID).is_ok());
        assert!(args
            .required(MISSING)
            .is_err_and(|e| e.message() == Some(MISSING)));
    }

    #[test]
    fn numbers_are_decimal_and_nothing_else() -> Result {
        for (word, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("+1", None),
            ("-1", None),
            ("1x", None),
            ("0x1", None),
            ("", None),
        ] {
            let (parsed, _) = with_args(&[word], |mut args| args.parsed::<u64>(INVALID).ok())?;
            assert_eq!(parsed, number);
        }
        Ok(())
    }

    #[test]
    fn a_line_with_too_many_arguments_is_refused() -> Result {
        let (left, _) = with_args(&["a"], |args| args.finish(INVALID).is_err())?;
        assert!(left);
        Ok(())
    }

    #[test]
    fn a_secret_is_overwritten_in_place() -> Result {
        let (seen, words) = with_args(&["s3cret", "open"], |mut args| {
            let seen = args
                .secret(MISSING)
                .is_ok_and(|secret| secret.as_bytes() == b"s3cret");
            seen && args.next().map(CStr::to_bytes) == Some(b"open")
        })?;
        assert!(seen);
        assert!(words
            .first()
            .is_some_and(|word| word.to_bytes() == b"000000"));
        assert!(words.get(1).is_some_and(|word| word.to_bytes() == b"open"));
        Ok(())
    }

    #[test]
    fn text_that_does_not_fit_is_cut_and_terminated() {
        let devices = Devices::new();
        let mut buf = [0xff_u8; 6];
        let mut out = Output::new(&mut buf, &devices);
        assert!(out.is_empty());
        assert!(out.write_str("abc").is_ok());
        assert!(out.write_str("defg").is_ok());
        assert!(out.write_str("h").is_ok());
        assert!(!out.is_empty());
        assert_eq!(&buf, b"abcde\0");

        let mut out = Output::new(&mut [], &devices);
        assert!(out.write_str("abc").is_ok());
        assert!(out.is_empty());
    }

    #[test]
    fn a_device_of_another_target_is_not_found() {
        let devices = Devices::new();
        assert!(devices.bdev(Device(0)).is_none());
        assert!(devices.bdev(Device(u32::MAX)).is_none());
        assert_eq!(devices.iterate(|_, _| 1), 0);
    }
}
