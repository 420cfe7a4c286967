// SPDX-License-Identifier: GPL-2.0

//! Module parameters that may change while the module is loaded.
//!
//! A parameter of [`module!`](kernel::prelude::module) is set when the module is loaded, and is not
//! seen afterwards. A [`Param`] is a file in `/sys/module/<module>/parameters` too, which everybody may
//! read, and root may write. Use it for what is looked at each time, such as a threshold.
//!
//! Only numbers of 32 bits without a sign are supported. Neither is a value checked before it is
//! set, nor does the module hear of it.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

use kernel::{
    ffi::c_void,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// A number that whoever loads the module, and root later, may set.
///
/// Made by [`writable_param!`].
#[repr(transparent)]
pub struct Param(Atomic<u32>);

impl Param {
    /// For [`writable_param!`].
    #[doc(hidden)]
    pub const fn new(default: u32) -> Self {
        Self(Atomic::new(default))
    }

    /// Returns what it is now.
    ///
    /// Context: any.
    #[inline]
    pub fn value(&self) -> u32 {
        // As `READ_ONCE()` in C: the kernel writes it whole, see `param_set_uint()`.
        self.0.load(Relaxed)
    }

    /// For [`writable_param!`]: what the kernel writes an `unsigned int` to.
    #[doc(hidden)]
    pub const fn as_void_ptr(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

/// For [`writable_param!`]: makes an array of a text that is not shorter.
#[doc(hidden)]
pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    let mut bytes = [0; N];
    let mut index = 0;

    while index < N && index < text.len() {
        bytes[index] = text[index];
        index += 1;
    }
    bytes
}

/// Makes a [`Param`] of the module that uses this: its name, its default, and what `modinfo` says.
///
/// `samples/rcrypt/size.rs` has two.
#[macro_export]
macro_rules! writable_param {
    (
        $(#[$meta:meta])*
        $vis:vis static $PARAM:ident: Param = ($name:literal, $default:expr, $text:literal $(,)?);
    ) => {
        $(#[$meta])*
        $vis static $PARAM: $crate::module::param::Param = $crate::module::param::Param::new($default);

        // As `module!` does for those that cannot be written.
        const _: () = {
            const TYPE: &str = ::core::concat!("parmtype=", $name, ":uint\0");
            const TEXT: &str = ::core::concat!("parm=", $name, ":", $text, "\0");

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARAM_TYPE: [u8; TYPE.len()] = $crate::module::param::bytes(TYPE);

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARAM_TEXT: [u8; TEXT.len()] = $crate::module::param::bytes(TEXT);

            #[link_section = "__param"]
            #[used(compiler)]
            static KERNEL_PARAM: ::kernel::module_param::KernelParam =
                ::kernel::module_param::KernelParam::new(::kernel::bindings::kernel_param {
                    name: ::core::concat!($name, "\0").as_ptr().cast(),
                    mod_: (&raw const ::kernel::bindings::__this_module).cast_mut(),
                    // Reads and writes an `unsigned int`.
                    ops: &raw const ::kernel::bindings::param_ops_uint,
                    perm: 0o644,
                    level: -1,
                    flags: 0,
                    __bindgen_anon_1: ::kernel::bindings::kernel_param__bindgen_ty_1 {
                        arg: $PARAM.as_void_ptr(),
                    },
                });
        };
    };
}
pub use writable_param;

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_param)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    use crate::bindings;

    #[test]
    fn what_the_kernel_sets_is_read() {
        let param = Param::new(7);
        assert_eq!(param.value(), 7);

        let raw = bindings::kernel_param {
            name: c"kunit".as_char_ptr(),
            mod_: core::ptr::null_mut(),
            ops: &raw const bindings::param_ops_uint,
            perm: 0,
            level: -1,
            flags: 0,
            __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                arg: param.as_void_ptr(),
            },
        };
        for (text, status, value) in [
            (c"4294967295", 0, u32::MAX),
            (c"4294967296", ERANGE.to_errno(), u32::MAX),
            (c"0x10", 0, 16),
            (c"-1", EINVAL.to_errno(), 16),
            (c"", EINVAL.to_errno(), 16),
        ] {
            // SAFETY: `text` is a C string, and `raw` a parameter for `param_set_uint()`, whose
            // argument points to an `unsigned int`.
            let set = unsafe { bindings::param_set_uint(text.as_char_ptr(), &raw const raw) };
            assert_eq!((set, param.value()), (status, value));
        }
    }

    #[test]
    fn bytes_are_those_of_the_text() {
        assert_eq!(bytes::<4>("abc\0"), *b"abc\0");
        assert_eq!(bytes::<2>("a"), *b"a\0");
    }
}
