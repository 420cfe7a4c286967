// SPDX-License-Identifier: GPL-2.0

//! The slab caches of C's, which all domains share.

use kernel::{
    error::to_result,
    prelude::*, //
};

use crate::bindings;

/// Takes a reference to the caches that all domains allocate from, for good.
///
/// To be called when the library is loaded, before there is any domain. Fails with [`ENOMEM`].
///
/// It is never given back: domains may have been forgotten, and `iova_cache_get()` that fails after
/// the last `iova_cache_put()` destroys a cache for the second time. It costs nothing where C's own
/// DMA layer has a reference, as on x86.
pub(crate) fn take_caches() -> Result {
    // SAFETY: It takes the lock that it needs, and may be called by any task.
    to_result(unsafe { bindings::iova_cache_get() })?;
    // If it is a module it must stay, as it leaves hotplug callbacks of its own.
    //
    // SAFETY: It is a string, and the symbol is exported, as the line above uses it. A reference is
    // not given back, as the caches are not.
    unsafe { bindings::__symbol_get(c"iova_cache_get".as_char_ptr()) };
    Ok(())
}
