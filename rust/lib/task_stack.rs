// SPDX-License-Identifier: GPL-2.0

//! Objects that must not be on the stack of a task.

use kernel::prelude::*;

use crate::bindings;

/// Fails with [`EINVAL`] if `slot` is on the stack of the current task.
///
/// For objects that C initialises as those of the heap: with `CONFIG_DEBUG_OBJECTS` the kernel
/// warns of others (`debug_object_is_on_stack()` in `lib/debugobjects.c`).
///
/// Context: Any context. Never sleeps. C: `object_is_on_stack()`.
pub(crate) fn refuse<T>(slot: *mut T) -> Result {
    // SAFETY: The function compares the address with that of the current task's stack.
    if unsafe { bindings::object_is_on_stack(slot.cast()) } {
        return Err(EINVAL);
    }
    Ok(())
}
