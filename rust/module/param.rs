// SPDX-License-Identifier: GPL-2.0

//! Module parameters that may change while the module is loaded.
//!
//! A parameter of [`module!`](kernel::prelude::module) is set at load time only. A [`Param`] is
//! also a file in `/sys/module/<module>/parameters`, which every user may read and root may write.
//! Use it for values that are read each time they are needed, such as a threshold.
//!
//! Only `u32` is supported. The kernel does not check a value before it sets the parameter, and
//! does not notify the module.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

use kernel::{
    ffi::c_void,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// A `u32` module parameter that root may change at any time.
///
/// Declared by [`writable_param!`].
#[repr(transparent)]
pub struct Param(Atomic<u32>);

impl Param {
    /// Creates a parameter. For [`writable_param!`].
    #[doc(hidden)]
    pub const fn new(default: u32) -> Self {
        Self(Atomic::new(default))
    }

    /// Returns the current value.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn value(&self) -> u32 {
        // As `READ_ONCE()` in C: `param_set_uint()` in `kernel/params.c` writes it in one store.
        self.0.load(Relaxed)
    }

    /// Returns the `unsigned int` that the kernel writes to. For [`writable_param!`].
    #[doc(hidden)]
    pub const fn as_void_ptr(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

/// Copies up to `N` bytes of a string to an array, padded with zeros. For [`writable_param!`].
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

/// What [`writable_param!`] expands to.
///
/// A crate may call another crate `kernel` or `core`, so the macro reaches nothing by these names.
#[doc(hidden)]
pub mod expansion {
    pub use core::concat;

    pub use kernel::{
        bindings::{
            __this_module,
            kernel_param,
            kernel_param__bindgen_ty_1,
            param_ops_uint, //
        },
        module_param::KernelParam, //
    };

    /// The parameter whose name has this [`id()`]. Implemented for the type of the module, so that
    /// two parameters of one name do not compile.
    pub trait Named<const ID: u64> {}

    /// Returns a number of a name: FNV-1a.
    ///
    /// Context: Any context. Never sleeps. Evaluated at compile time.
    pub const fn id(name: &str) -> u64 {
        let name = name.as_bytes();
        let mut id: u64 = 0xcbf2_9ce4_8422_2325;
        let mut index = 0;

        while index < name.len() {
            // CAST: From 8 to 64 bits.
            id = (id ^ name[index] as u64).wrapping_mul(0x100_0000_01b3);
            index += 1;
        }
        id
    }

    /// The maximum length of a name, in bytes. The kernel allocates memory for a copy.
    const MAX_NAME: usize = 64;

    /// Returns whether a name has ASCII letters, digits and underscores only, as an identifier of
    /// C.
    ///
    /// Context: Any context. Never sleeps. Evaluated at compile time.
    const fn is_name(name: &str) -> bool {
        let name = name.as_bytes();
        let mut index = 0;

        while index < name.len() {
            if !name[index].is_ascii_alphanumeric() && name[index] != b'_' {
                return false;
            }
            index += 1;
        }
        index > 0
    }

    /// Panics if a parameter cannot have this name or this description.
    ///
    /// A NUL in the description would end it, and begin another entry of `.modinfo`.
    ///
    /// Context: Any context. Never sleeps. Evaluated at compile time.
    pub const fn check(name: &str, text: &str) {
        assert!(
            is_name(name),
            "the name of a parameter consists of letters, digits and underscores"
        );
        assert!(
            name.len() <= MAX_NAME,
            "the name of a parameter has at most 64 bytes"
        );

        let text = text.as_bytes();
        let mut index = 0;
        while index < text.len() {
            assert!(
                text[index] != 0,
                "the description of a parameter has no NUL"
            );
            index += 1;
        }
    }
}

/// Declares a [`Param`] of the calling module: its name, default and description for `modinfo`.
///
/// The name consists of at most 64 ASCII letters, digits and underscores, and no other parameter
/// that this macro declares in the crate has it (checked at compile time): sysfs warns of a second
/// file of one name.
///
/// Documentation is the only attribute. An attribute in the expansion of this macro escapes
/// `#![forbid(unsafe_code)]` of the calling module: `#[link_section]`, `#[export_name]` and
/// `#[no_mangle]` could then replace code or tables of the kernel.
///
/// `samples/rcrypt/split.rs` declares two.
#[expect(
    clippy::crate_in_macro_def,
    reason = "the type is that of the calling module"
)]
#[macro_export]
macro_rules! writable_param {
    (
        $(#[doc = $doc:expr])*
        $vis:vis static $PARAM:ident: Param = ($name:literal, $default:expr, $text:literal $(,)?);
    ) => {
        $(#[doc = $doc])*
        $vis static $PARAM: $crate::module::param::Param = $crate::module::param::Param::new($default);

        impl $crate::module::param::expansion::Named<{
            $crate::module::param::expansion::id($name)
        }> for crate::LocalModule {}

        // As `module!` does for read-only parameters.
        const _: () = {
            const TYPE: &str =
                $crate::module::param::expansion::concat!("parmtype=", $name, ":uint\0");
            const TEXT: &str =
                $crate::module::param::expansion::concat!("parm=", $name, ":", $text, "\0");

            // Not `assert!`: the calling module may have a macro of that name.
            $crate::module::param::expansion::check($name, $text);

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARAM_TYPE: [u8; TYPE.len()] = $crate::module::param::bytes(TYPE);

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARAM_TEXT: [u8; TEXT.len()] = $crate::module::param::bytes(TEXT);

            #[link_section = "__param"]
            #[used(compiler)]
            static KERNEL_PARAM: $crate::module::param::expansion::KernelParam =
                $crate::module::param::expansion::KernelParam::new(
                    $crate::module::param::expansion::kernel_param {
                        name: $crate::module::param::expansion::concat!($name, "\0")
                            .as_ptr()
                            .cast(),
                        mod_: (&raw const $crate::module::param::expansion::__this_module)
                            .cast_mut(),
                        // Parses and prints an `unsigned int`.
                        ops: &raw const $crate::module::param::expansion::param_ops_uint,
                        perm: 0o644,
                        level: -1,
                        flags: 0,
                        __bindgen_anon_1: $crate::module::param::expansion::kernel_param__bindgen_ty_1 {
                            // Not a method call: a value of another type has a method of its own.
                            arg: $crate::module::param::Param::as_void_ptr(&$PARAM),
                        },
                    },
                );
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
    fn value_set_by_the_kernel_is_read() {
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
            // SAFETY: `text` is a C string. `raw` is a parameter for `param_set_uint()`, and its
            // argument points to an `unsigned int`.
            let set = unsafe { bindings::param_set_uint(text.as_char_ptr(), &raw const raw) };
            assert_eq!((set, param.value()), (status, value));
        }
    }

    #[test]
    fn bytes_match_the_parameter_text() {
        assert_eq!(bytes::<4>("abc\0"), *b"abc\0");
        assert_eq!(bytes::<2>("a"), *b"a\0");
    }
}
