// SPDX-License-Identifier: GPL-2.0

//! The slab caches of `drivers/iommu/iova.c`, which all domains share.

use kernel::{
    error::to_result,
    prelude::*, //
};

use crate::bindings;

/// Takes a reference to the slab caches of all domains, and never drops it.
///
/// Must be called when the library is loaded, before a domain exists. Fails with [`ENOMEM`].
///
/// The reference is never dropped: leaked domains may exist. Also, an `iova_cache_get()` that fails
/// after the last `iova_cache_put()` destroys a cache for the second time. The reference costs
/// nothing where C's DMA layer holds one, as on x86.
pub(crate) fn take_caches() -> Result {
    // SAFETY: The function takes the lock that it needs, and any task may call it.
    to_result(unsafe { bindings::iova_cache_get() })?;
    // If `iova.c` is a module, it must not be unloaded, as it leaves its hotplug callbacks
    // registered.
    //
    // SAFETY: The name is a C string, and the symbol is exported, as the line above links to it.
    // The reference is never dropped, like that to the caches.
    unsafe { bindings::__symbol_get(c"iova_cache_get".as_char_ptr()) };
    Ok(())
}
