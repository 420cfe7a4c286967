// SPDX-License-Identifier: GPL-2.0

//! The CPU hotplug state of the library, and its C callbacks.

use kernel::{
    container_of,
    cpu::CpuId,
    error::to_result,
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::Task,
    types::Opaque, //
};

use core::ptr::NonNull;

use crate::{
    bindings,
    lib::errno::user_errno, //
};

/// The list node of an instance, and its functions.
#[repr(C)]
pub(super) struct Header {
    node: Opaque<bindings::hlist_node>,
    online: unsafe fn(NonNull<Header>, CpuId) -> Result,
    offline: unsafe fn(NonNull<Header>, CpuId),
}

impl Header {
    /// Creates a header whose node is in no list.
    ///
    /// The functions are called with this header.
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

    /// Returns the node of a header, without dereferencing it.
    fn node(header: NonNull<Self>) -> *mut bindings::hlist_node {
        header.cast::<bindings::hlist_node>().as_ptr()
    }
}

/// The hotplug state of which all registrations are instances.
///
/// Dynamic states are few, so the library uses one for all registrations. The functions that C
/// calls are then in the library, which is unloaded last.
static STATE: Atomic<i32> = Atomic::new(0);

/// Calls a header's `online` for all online CPUs, and links the header.
///
/// Fails with the error of the first call that fails; `offline` is then called for the earlier
/// CPUs.
///
/// # Safety
///
/// - `header` must be in no list, and must not move before it is [removed](remove).
/// - Until then its functions must be callable with it, for any CPU.
pub(super) unsafe fn add(header: NonNull<Header>) -> Result {
    // SAFETY: By the safety requirements.
    to_result(unsafe {
        bindings::cpuhp_state_add_instance(STATE.load(Relaxed), Header::node(header))
    })
}

/// Calls a header's `offline` for all online CPUs, and unlinks the header.
///
/// # Safety
///
/// `header` must be linked.
pub(super) unsafe fn remove(header: NonNull<Header>) {
    // SAFETY: `header` is linked into the list of this state. C fails only for other kinds of
    // states.
    unsafe { bindings::cpuhp_state_remove_instance(STATE.load(Relaxed), Header::node(header)) };
}

/// The task that runs a callback, or 0. There is at most one: C holds the CPU hotplug lock for
/// writing, or it holds the lock for reading and `cpuhp_state_mutex`.
static CALLER: Atomic<usize> = Atomic::new(0);

/// Returns whether the current task runs a callback.
pub(super) fn is_in_callback() -> bool {
    CALLER.load(Relaxed) == Task::current_raw().addr()
}

/// The hotplug state, while the library is loaded.
///
/// # Invariants
///
/// [`STATE`] is the number of a state with [`call_online()`] and [`call_offline()`].
pub(crate) struct State(());

impl State {
    /// Sets up the state. Called once, when the library is loaded.
    ///
    /// Fails with [`ENOSPC`] if no dynamic state is left.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The functions fit the instances of this state, which all come from
        // `Registration::new()`. The functions and the name stay until the state is removed.
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
        // INVARIANT: The state was just set up.
        Ok(Self(()))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the state exists. It has no registrations, as the modules
        // that registered them are unloaded.
        unsafe { bindings::cpuhp_remove_multi_state(STATE.load(Relaxed)) };
    }
}

/// Calls `func` with the arguments of a C callback.
///
/// # Safety
///
/// C must have called back with `node` and `cpu`.
unsafe fn call<R>(
    cpu: c_uint,
    node: *mut bindings::hlist_node,
    func: impl FnOnce(NonNull<Header>, CpuId) -> R,
) -> R {
    // SAFETY: C calls back with the number of a possible CPU.
    let cpu = unsafe { CpuId::from_u32_unchecked(cpu) };
    // SAFETY: All nodes in the list are those of headers.
    let header = unsafe { container_of!(Opaque::cast_from(node), Header, node) };
    // SAFETY: `header` points into an allocation.
    let header = unsafe { NonNull::new_unchecked(header.cast_mut()) };

    CALLER.store(Task::current_raw().addr(), Relaxed);
    let ret = func(header, cpu);
    CALLER.store(0, Relaxed);
    ret
}

/// The C callback for a CPU that comes online.
///
/// # Safety
///
/// C must call it for the state of the library.
unsafe extern "C" fn call_online(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    let func = |header: NonNull<Header>, cpu| {
        // SAFETY: `header` is linked, as C calls back only for linked headers.
        let online = unsafe { header.as_ref() }.online;
        // SAFETY: `online` is the function of this header.
        unsafe { online(header, cpu) }
    };
    // SAFETY: By the safety requirements.
    let result = unsafe { call(cpu, node, func) };
    // It may get to a write to sysfs.
    result.map_or_else(user_errno, |()| 0)
}

/// The C callback for a CPU that goes offline.
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
    // C ignores errors when a state or an instance is removed.
    0
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_cpuhp_state)]
mod tests {
    use super::*;

    /// Succeeds if the caller is in a callback.
    fn online(_: NonNull<Header>, _: CpuId) -> Result {
        is_in_callback().then_some(()).ok_or(EINVAL)
    }

    fn offline(_: NonNull<Header>, _: CpuId) {}

    /// Otherwise the task could never register callbacks again.
    #[test]
    fn task_is_in_a_callback_only_during_the_call() {
        let header = Header::new(online, offline);
        let node = Header::node(NonNull::from(&header));

        // SAFETY: The node is that of a header, and its functions accept any arguments.
        assert_eq!(unsafe { call_online(0, node) }, 0);
        assert!(!is_in_callback());
        // SAFETY: As above.
        assert_eq!(unsafe { call_offline(0, node) }, 0);
        assert!(!is_in_callback());
    }
}
