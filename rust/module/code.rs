// SPDX-License-Identifier: GPL-2.0

//! The code of a module.

use core::ops::Range;

use crate::bindings;

/// Returns whether the functions at `addresses` are code of `module`.
///
/// Several modules may have copies of one generic function.
///
/// # Safety
///
/// `module` must be NULL (the module of built-in code) or a module that is loaded.
pub(crate) unsafe fn has_code(module: *mut bindings::module, addresses: &[usize]) -> bool {
    !module.is_null()
        && addresses.iter().all(|address| {
            // SAFETY: By the safety requirements, and not NULL.
            unsafe { bindings::within_module(*address, module) }
        })
}

/// Returns the addresses of the code of a module that stays until the module is unloaded.
///
/// # Safety
///
/// `module` must be NULL, which has no code, or a module that is loaded.
pub(crate) unsafe fn code_of(module: *const bindings::module) -> Range<usize> {
    if module.is_null() {
        return 0..0;
    }
    // SAFETY: By the safety requirements. Nothing writes to this field of a loaded module.
    let text = unsafe { &raw const (*module).mem[bindings::mod_mem_type_MOD_TEXT as usize] };
    // SAFETY: As above.
    let (base, size) = unsafe { ((*text).base, (*text).size) };
    let start = base.addr();
    // OVERFLOW: The memory exists. CAST: From 32 to 64 bits.
    start..start.wrapping_add(size as usize)
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_module_code)]
mod tests {
    use super::*;

    use kernel::module::this_module;

    use core::ptr;

    use crate::module::cleanup::testing::empty_module;

    /// A function of the library.
    fn nothing() {}

    #[test]
    fn has_code_requires_all_functions() {
        let own = this_module::<crate::LocalModule>().as_ptr();
        let here = nothing as *const () as usize;
        let elsewhere = bindings::synchronize_srcu as *const () as usize;
        // Addresses of functions, whether all belong to this module.
        let rows: [(&[usize], bool); 6] = [
            (&[here], true),
            (&[here, here], true),
            (&[elsewhere], false),
            (&[here, elsewhere], false),
            (&[elsewhere, here], false),
            (&[0], false),
        ];

        for (addresses, is_own) in rows {
            // SAFETY: The library is loaded.
            assert_eq!(unsafe { has_code(own, addresses) }, is_own);
            // SAFETY: There is no module.
            assert!(!unsafe { has_code(ptr::null_mut(), addresses) });
        }
    }

    #[test]
    fn code_of_a_module_is_in_its_range() {
        let here = nothing as *const () as usize;
        let elsewhere = bindings::synchronize_srcu as *const () as usize;
        // SAFETY: The library is loaded.
        let own = unsafe { code_of(this_module::<crate::LocalModule>().as_ptr()) };

        assert!(own.contains(&here));
        assert!(!own.contains(&elsewhere));
        // SAFETY: There is no module.
        assert!(unsafe { code_of(ptr::null()) }.is_empty());
        // SAFETY: Only the fields of its memory are read, which are zero.
        assert!(unsafe { code_of(empty_module()) }.is_empty());
    }
}
