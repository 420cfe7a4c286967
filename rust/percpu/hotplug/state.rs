// SPDX-License-Identifier: GPL-2.0

//! The hotplug state of the library, and the functions that C calls.

use kernel::{
    container_of,
    cpu::CpuId,
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::bindings;

/// What C has in its list, and its functions.
#[repr(C)]
pub(super) struct Header {
    node: Opaque<bindings::hlist_node>,
    online: unsafe fn(NonNull<Header>, CpuId) -> Result,
    offline: unsafe fn(NonNull<Header>, CpuId),
}

impl Header {
    /// Makes a header with a node that is in no list.
    ///
    /// The functions will be called with the header.
    pub(super) fn new(
        online: unsafe fn(NonNull<Header>, CpuId) -> Result,
        offline: unsafe fn(NonNull<Header>, CpuId),
    ) -> Self {
        Self {
            node: Opaque::zeroed(),
            online,
            offline,
        }
    }

    /// Returns the node of a header. It is not looked at.
    fn node(header: NonNull<Self>) -> *mut bindings::hlist_node {
        header.cast::<bindings::hlist_node>().as_ptr()
    }
}

/// The number of the state that all registrations are instances of.
///
/// There are few dynamic states, so the library takes one for all. That also keeps the functions
/// that C calls in the library, which is the last to go.
static STATE: Atomic<i32> = Atomic::new(0);

/// Calls a header's `online` for the CPUs that are online, and links it.
///
/// Fails with the error of the first call that fails, after `offline` for the CPUs before.
///
/// # Safety
///
/// - `header` must be in no list, and stay where it is until it has been [removed](remove).
/// - Its functions must be fit to be called with it, for any CPU, until then.
pub(super) unsafe fn add(header: NonNull<Header>) -> Result {
    // SAFETY: By the safety requirements.
    to_result(unsafe {
        bindings::cpuhp_state_add_instance(STATE.load(Relaxed), Header::node(header))
    })
}

/// Calls a header's `offline` for the CPUs that are online, and unlinks it.
///
/// # Safety
///
/// `header` must be linked.
pub(super) unsafe fn remove(header: NonNull<Header>) {
    // SAFETY: It is linked into the list of this state. C fails for states of another kind only.
    unsafe { bindings::cpuhp_state_remove_instance(STATE.load(Relaxed), Header::node(header)) };
}

/// The task that runs a callback, 0 if there is none. There is one at most: C holds the lock of CPU
/// hotplug for writing, or for reading and `cpuhp_state_mutex`.
static CALLER: Atomic<usize> = Atomic::new(0);

/// Returns a number that only the current task has.
fn current_task() -> usize {
    // SAFETY: `get_current()` has no preconditions.
    // CAST: To an address.
    unsafe { bindings::get_current() as usize }
}

/// Tells whether a callback calls this.
pub(super) fn is_in_callback() -> bool {
    CALLER.load(Relaxed) == current_task()
}

/// The state, as long as the library is loaded.
///
/// # Invariants
///
/// [`STATE`] is the number of a state with [`call_online()`] and [`call_offline()`].
pub(crate) struct State(());

impl State {
    /// Sets it up. To be called once, when the library is loaded.
    ///
    /// Fails with [`ENOSPC`] if others have taken all dynamic states.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The functions are fit for the instances of this state, which are all of
        // `Registration::new()`, and stay until it is removed, as the name does.
        let state = unsafe {
            bindings::cpuhp_setup_state_multi(
                bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN,
                c"kscale:online".as_char_ptr(),
                Some(call_online),
                Some(call_offline),
            )
        };
        to_result(state)?;
        STATE.store(state, Relaxed);
        // INVARIANT: Just set up.
        Ok(Self(()))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: There is this state by the type invariants. Registrations are gone, as the
        // modules that made them are.
        unsafe { bindings::cpuhp_remove_multi_state(STATE.load(Relaxed)) };
    }
}

/// Calls `func` with what C called back with.
///
/// # Safety
///
/// C must have called back with `node` and `cpu`.
unsafe fn call<R>(
    cpu: c_uint,
    node: *mut bindings::hlist_node,
    func: impl FnOnce(NonNull<Header>, CpuId) -> R,
) -> R {
    // SAFETY: C calls back for CPUs that there are.
    let cpu = unsafe { CpuId::from_u32_unchecked(cpu) };
    // SAFETY: All nodes in the list are those of headers.
    let header = unsafe { container_of!(Opaque::cast_from(node), Header, node) };
    // SAFETY: It is the address of memory.
    let header = unsafe { NonNull::new_unchecked(header.cast_mut()) };

    CALLER.store(current_task(), Relaxed);
    let ret = func(header, cpu);
    CALLER.store(0, Relaxed);
    ret
}

/// Is called for a CPU that comes online.
///
/// # Safety
///
/// C must call it, for the state of the library.
unsafe extern "C" fn call_online(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    let func = |header: NonNull<Header>, cpu| {
        // SAFETY: It is a header, of which C calls back for linked ones only.
        let online = unsafe { header.as_ref() }.online;
        // SAFETY: That is the function for this very header.
        unsafe { online(header, cpu) }
    };
    // SAFETY: By the safety requirements.
    from_result(|| unsafe { call(cpu, node, func) }.map(|()| 0))
}

/// Is called for a CPU that goes offline.
///
/// # Safety
///
/// As for [`call_online()`].
unsafe extern "C" fn call_offline(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    let func = |header: NonNull<Header>, cpu| {
        // SAFETY: As in `call_online()`.
        let offline = unsafe { header.as_ref() }.offline;
        // SAFETY: As in `call_online()`.
        unsafe { offline(header, cpu) };
    };
    // SAFETY: By the safety requirements.
    unsafe { call(cpu, node, func) };
    // C does not let a callback fail when a state or an instance is removed.
    0
}
