// SPDX-License-Identifier: GPL-2.0

//! Allocation flags and the NOIO scope.
//!
//! [`Gfp`] is `gfp_t` for functions that `kernel::alloc::Flags` cannot be passed to. It has
//! [`Gfp::NOIO`], and allocator callbacks can query the flags of their caller. In the I/O path,
//! prefer [`noio_scope()`] to [`Gfp::NOIO`]: a scope also applies to allocations in the functions
//! that the code calls.
//!
//! Zone modifiers, `__GFP_NOFAIL` and access to the emergency reserves are not supported.
//!
//! C headers: [`include/linux/gfp_types.h`](srctree/include/linux/gfp_types.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use kernel::bindings::gfp_t;

use core::ops::BitOr;

use crate::bindings;

/// The flags of an allocation (`gfp_t`).
///
/// Flags are combined with `|`. Flags that allow sleeping must not be used in atomic context.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Gfp(gfp_t);

impl Gfp {
    /// For process context: may sleep, start I/O and call into file systems (`GFP_KERNEL`).
    pub const KERNEL: Self = Self(bindings::GFP_KERNEL);

    /// For the I/O path: may sleep, but starts no I/O (`GFP_NOIO`).
    pub const NOIO: Self = Self(bindings::GFP_NOIO);

    /// For file systems: may sleep and start I/O, but calls no file system (`GFP_NOFS`).
    pub const NOFS: Self = Self(bindings::GFP_NOFS);

    /// Never sleeps, and fails more often (`GFP_NOWAIT`).
    pub const NOWAIT: Self = Self(bindings::GFP_NOWAIT);

    /// Never sleeps, and may use part of the reserves (`GFP_ATOMIC`).
    pub const ATOMIC: Self = Self(bindings::GFP_ATOMIC);

    /// Modifier: fails without a message in the log (`__GFP_NOWARN`).
    pub const NOWARN: Self = Self(bindings::__GFP_NOWARN);

    /// Modifier: gives up after one round of reclaim (`__GFP_NORETRY`).
    ///
    /// An allocator of a [mempool] gets this flag on every attempt that may fail.
    ///
    /// [mempool]: crate::mm::mempool::Allocator
    pub const NORETRY: Self = Self(1 << bindings::___GFP_NORETRY_BIT);

    /// Modifier: never uses the emergency reserves (`__GFP_NOMEMALLOC`).
    pub const NOMEMALLOC: Self = Self(1 << bindings::___GFP_NOMEMALLOC_BIT);

    /// Modifier: fills the memory with zeros (`__GFP_ZERO`).
    pub const ZERO: Self = Self(bindings::__GFP_ZERO);

    /// Modifier: charges the memory cgroup of the task (`__GFP_ACCOUNT`).
    pub(crate) const ACCOUNT: Self = Self(1 << bindings::___GFP_ACCOUNT_BIT);

    /// No modifier.
    pub(crate) const NONE: Self = Self(0);

    /// Modifier: allocates several pages as one compound page (`__GFP_COMP`).
    pub(crate) const COMP: Self = Self(1 << bindings::___GFP_COMP_BIT);

    /// The allocation may start I/O (`__GFP_IO`).
    pub(crate) const IO: Self = Self(1 << bindings::___GFP_IO_BIT);

    /// The allocation may call into file systems (`__GFP_FS`).
    pub(crate) const FS: Self = Self(1 << bindings::___GFP_FS_BIT);

    /// Returns [`Gfp::NOIO`], or [`Gfp::ATOMIC`] in an interrupt and with interrupts or softirqs
    /// disabled.
    ///
    /// Use it in code of the I/O path that runs in several contexts. It cannot detect a held
    /// spinlock.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn noio_or_atomic() -> Self {
        // SAFETY: The function reads flags and counters of this CPU.
        if unsafe { bindings::in_interrupt_or_irqs_off() } {
            Self::ATOMIC
        } else {
            Self::NOIO
        }
    }

    /// Converts the flags that C passed to a callback.
    #[inline]
    pub(crate) const fn from_raw(flags: gfp_t) -> Self {
        Self(flags)
    }

    /// Returns the flags as `gfp_t`.
    #[inline]
    pub(crate) const fn as_raw(self) -> gfp_t {
        self.0
    }

    /// Returns the flags that are set in `self` or in `other`.
    ///
    /// The `const` form of `|`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all of `flags` are set.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Gfp {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

/// Calls `f` in a NOIO scope: all allocations of this task behave as with [`Gfp::NOIO`].
///
/// Scopes nest. The scope applies to the code that `f` calls directly, but not to other tasks, such
/// as work items that `f` queues.
///
/// Context: Any context. May sleep if `f` does. C: `memalloc_noio_save()` in
/// `include/linux/sched/mm.h`.
#[inline]
pub fn noio_scope<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: `memalloc_noio_save()` in `include/linux/sched/mm.h` only sets a bit in the flags of
    // the current task, which no other task writes. Any context may call it.
    let saved = unsafe { bindings::memalloc_noio_save() };

    let ret = f();

    // SAFETY: `memalloc_noio_save()` above returned `saved` in this task, because a function
    // returns in the task that called it. Every scope that `f` began has ended, as each is a call
    // of this function.
    unsafe { bindings::memalloc_noio_restore(saved) };

    ret
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_gfp)]
mod tests {
    use super::*;

    use kernel::{
        interrupt::local_interrupt_disable,
        prelude::*, //
    };

    use crate::testing::task::in_noio_scope;

    #[test]
    fn flags_allow_the_operations_of_their_name() {
        const DIRECT_RECLAIM: Gfp = Gfp(1 << bindings::___GFP_DIRECT_RECLAIM_BIT);
        // Flags, may sleep, may start I/O, may call into file systems.
        const ROWS: [(Gfp, bool, bool, bool); 7] = [
            (Gfp::KERNEL, true, true, true),
            (Gfp::NOFS, true, true, false),
            (Gfp::NOIO, true, false, false),
            (Gfp::NOWAIT, false, false, false),
            (Gfp::ATOMIC, false, false, false),
            (Gfp::NORETRY, false, false, false),
            (Gfp::ZERO, false, false, false),
        ];

        for (flags, may_direct_reclaim, may_start_io, may_enter_fs) in ROWS {
            assert_eq!(flags.contains(DIRECT_RECLAIM), may_direct_reclaim);
            assert_eq!(flags.contains(Gfp::IO), may_start_io);
            assert_eq!(flags.contains(Gfp::FS), may_enter_fs);
        }
    }

    #[test]
    fn flags_match_c() {
        assert_eq!(Gfp::KERNEL.0, bindings::GFP_KERNEL);
        assert_eq!(Gfp::NOIO.0, bindings::GFP_NOIO);
        assert!(Gfp::KERNEL.contains(Gfp::NOFS));
        assert!(Gfp::NOFS.contains(Gfp::NOIO));
        assert!(!Gfp::NOIO.contains(Gfp::NOFS));
        assert!(!Gfp::NOFS.contains(Gfp::KERNEL));
    }

    #[test]
    fn contains_requires_all_flags() {
        let flags = Gfp::NOIO | Gfp::NORETRY;

        assert!(flags.contains(Gfp::NOIO));
        assert!(flags.contains(Gfp::NORETRY));
        assert!(flags.contains(Gfp::NOIO | Gfp::NORETRY));
        assert!(!flags.contains(Gfp::NORETRY | Gfp::ZERO));
    }

    #[test]
    fn noio_or_atomic_is_atomic_with_interrupts_off() {
        assert!(Gfp::noio_or_atomic() == Gfp::NOIO);

        let disabled = local_interrupt_disable();
        assert!(Gfp::noio_or_atomic() == Gfp::ATOMIC);
        drop(disabled);

        assert!(Gfp::noio_or_atomic() == Gfp::NOIO);
    }

    #[test]
    fn noio_scope_covers_its_closure_only() {
        assert!(!in_noio_scope());
        assert!(noio_scope(in_noio_scope));
        assert!(!in_noio_scope());
    }

    #[test]
    fn noio_scopes_nest() {
        let (inner, outer) = noio_scope(|| (noio_scope(in_noio_scope), in_noio_scope()));

        assert!(inner);
        assert!(outer);
        assert!(!in_noio_scope());
    }

    #[test]
    fn noio_scope_returns_what_its_closure_does() {
        let failed: Result = noio_scope(|| Err(EAGAIN));

        assert_eq!(failed, Err(EAGAIN));
    }

    #[test]
    fn modifiers_match_c() {
        // Flag, its bit.
        const ROWS: [(Gfp, u32); 6] = [
            (Gfp::NORETRY, bindings::___GFP_NORETRY_BIT),
            (Gfp::NOMEMALLOC, bindings::___GFP_NOMEMALLOC_BIT),
            (Gfp::NOWARN, bindings::___GFP_NOWARN_BIT),
            (Gfp::ZERO, bindings::___GFP_ZERO_BIT),
            (Gfp::ACCOUNT, bindings::___GFP_ACCOUNT_BIT),
            (Gfp::COMP, bindings::___GFP_COMP_BIT),
        ];

        for (flag, bit) in ROWS {
            assert_eq!(flag.as_raw(), 1 << bit);
            let both = Gfp::NOIO | flag;
            assert!(both == Gfp::NOIO.union(flag) && both.contains(flag));
            assert_eq!(both.as_raw(), Gfp::NOIO.as_raw() | 1 << bit);
            assert!(Gfp::from_raw(both.as_raw()) == both);
        }
        assert_eq!(Gfp::NONE.as_raw(), 0);
    }
}
