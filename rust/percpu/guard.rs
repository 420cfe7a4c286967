// SPDX-License-Identifier: GPL-2.0

//! Proofs that interrupts or preemption are disabled on this CPU.

use kernel::types::NotThreadSafe;

use crate::bindings;

/// Evidence that interrupts are disabled on this CPU, from [`with_interrupts_disabled()`].
///
/// While the evidence lives, no other task, no softirq and no hard interrupt runs on this CPU. An
/// NMI may still run. The closure must not sleep, and must not call C code that enables interrupts
/// unconditionally. Types do not prevent this, as for every guard of the kernel.
///
/// The type of [`kernel::interrupt`] proves nothing on kernels without preemption; hence this type.
/// It is no guard: C code may call Rust code with interrupts disabled, for example `printk()` calls
/// [`Display`](kernel::fmt::Display). Afterwards C restores the state of interrupts. A guard could
/// live on.
///
/// # Invariants
///
/// Interrupts are disabled on this CPU while a reference to the value lives.
pub struct InterruptsDisabled(NotThreadSafe);

/// Calls `f` with interrupts disabled on this CPU, and returns what `f` returns.
///
/// Afterwards interrupts are in the state before, unless a guard of the kernel is left that was
/// created meanwhile.
///
/// Calls nest, and guards of the kernel may be dropped in `f`, such as those of
/// [`SpinLockIrq`](kernel::sync::SpinLockIrq). All of them count in a byte of `preempt_count()`. At
/// a depth of 128, a call is not counted, because an overflow would corrupt the counts of
/// interrupts and NMIs. A task at this depth has most likely leaked guards of the kernel. So
/// interrupts then stay disabled after the outermost call, as after a leak, until the task sleeps.
///
/// Context: Any context except NMI. Never sleeps. C: `local_interrupt_disable()` in
/// `include/linux/interrupt_rc.h`.
#[inline]
pub fn with_interrupts_disabled<R>(f: impl FnOnce(&InterruptsDisabled) -> R) -> R {
    // SAFETY: The helper saves the state of interrupts, and may be called in any state.
    let is_counted = unsafe { bindings::local_interrupt_disable_unless_deep() };

    // INVARIANT: Interrupts are disabled. The end of a guard of the kernel does not enable them:
    // the call above counts, or has set the state that the last guard restores to "disabled". C
    // code that saves and restores their state does that before or after `f`, or meanwhile.
    let result = f(&InterruptsDisabled(NotThreadSafe));
    if is_counted {
        // SAFETY: The call above has no matching call yet. It was made by this task on this CPU, as
        // a task does not migrate while interrupts are disabled.
        unsafe { bindings::local_interrupt_enable() };
    }
    result
}

/// Evidence that preemption is disabled: the task stays on its CPU.
///
/// Interrupts may still run, and the task must not sleep. Proofs nest, and may be dropped in any
/// order. A leaked proof leaves preemption disabled.
///
/// The count is a byte of `preempt_count()`. At a depth of 128, further proofs are not counted,
/// because an overflow would corrupt the interrupt counts. A task at this depth has most likely
/// leaked proofs. Otherwise preemption may be enabled before the last uncounted proof is dropped.
///
/// # Invariants
///
/// If `is_counted`, a call of `preempt_disable()` by this task has no matching `preempt_enable()`
/// yet.
#[must_use = "preemption is on again as soon as it is dropped"]
pub struct PreemptDisabled {
    is_counted: bool,
    _task: NotThreadSafe,
}

/// Disables preemption.
///
/// Context: Any context. Never sleeps. C: `preempt_disable()` in `include/linux/preempt.h`.
#[inline]
pub fn preempt_disable() -> PreemptDisabled {
    // SAFETY: `preempt_disable()` has no preconditions.
    let is_counted = unsafe { bindings::preempt_disable_unless_deep() };

    // INVARIANT: If `is_counted`, the call above has no matching call yet.
    PreemptDisabled {
        is_counted,
        _task: NotThreadSafe,
    }
}

impl Drop for PreemptDisabled {
    #[inline]
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        // SAFETY: By the type invariants a call of `preempt_disable()` has no matching call yet. It
        // was made by this task, as the proof is not `Send`.
        unsafe { bindings::preempt_enable() };
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_percpu_guard)]
mod tests {
    use super::*;

    use kernel::{
        interrupt::{
            self,
            LocalInterruptDisabled, //
        },
        prelude::*, //
    };

    fn in_atomic() -> bool {
        // SAFETY: The helper only reads the state of this CPU.
        unsafe { bindings::in_atomic() }
    }

    fn in_hardirq() -> bool {
        // SAFETY: The helper only looks at the state of this CPU.
        unsafe { bindings::in_hardirq() }
    }

    fn in_nmi() -> bool {
        // SAFETY: The helper only looks at the state of this CPU.
        unsafe { bindings::in_nmi() }
    }

    fn interrupts_are_on() -> bool {
        // SAFETY: The helper only reads the state of this CPU.
        unsafe { bindings::in_task_irqs_on() }
    }

    /// Enables interrupts, as the kernel does when a task with leaked guards sleeps.
    fn enable_interrupts() {
        // SAFETY: No evidence is left.
        unsafe { bindings::local_irq_enable() };
    }

    #[test]
    fn interrupts_are_off_in_the_closure() {
        assert!(interrupts_are_on());
        let meanwhile = with_interrupts_disabled(|_| interrupts_are_on());

        assert!(!meanwhile);
        assert!(interrupts_are_on());
    }

    #[test]
    fn guards_of_the_kernel_end_in_any_order() {
        let before = interrupt::local_interrupt_disable();
        let (seen, inside) = with_interrupts_disabled(|_| {
            let inside = interrupt::local_interrupt_disable();
            drop(before);
            let seen = with_interrupts_disabled(|_| interrupts_are_on()) || interrupts_are_on();
            (seen, inside)
        });
        let with_guard = interrupts_are_on();
        drop(inside);

        assert!(!seen);
        assert!(!with_guard);
        assert!(interrupts_are_on());
    }

    fn in_softirq() -> bool {
        // SAFETY: The helper only reads the state of this CPU.
        unsafe { bindings::in_interrupt_or_irqs_off() }
    }

    #[test]
    fn many_guards_do_not_count_as_softirq() -> Result {
        const PROOFS: usize = 1000;
        let mut proofs = KVec::with_capacity(PROOFS, GFP_KERNEL)?;
        for _ in 0..PROOFS {
            if proofs.push_within_capacity(preempt_disable()).is_err() {
                break;
            }
        }
        let while_alive = (in_atomic(), in_softirq());
        let count = proofs.len();
        drop(proofs);

        assert_eq!(count, PROOFS);
        assert_eq!(while_alive, (true, false));
        assert!(!in_atomic());
        assert!(interrupts_are_on());
        Ok(())
    }

    /// Returns guards of the kernel.
    fn kernels(count: usize) -> Result<KVec<LocalInterruptDisabled>> {
        let mut guards = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            drop(guards.push_within_capacity(interrupt::local_interrupt_disable()));
        }
        Ok(guards)
    }

    /// Nests calls, and calls `f` in the last.
    fn nest<R>(depth: usize, f: &mut dyn FnMut() -> R) -> R {
        if depth == 0 {
            return f();
        }
        with_interrupts_disabled(|_| nest(depth - 1, f))
    }

    #[test]
    fn interrupts_are_off_after_many_guards_of_the_kernel_are_dropped() -> Result {
        for count in [0, 1, 2, 118, 119, 127, 128, 129, 200] {
            for depth in [1, 2, 10] {
                let mut guards = kernels(count)?;
                let mut meanwhile = [true; 3];
                nest(depth, &mut || {
                    meanwhile[0] = in_nmi() || in_hardirq() || interrupts_are_on();
                    guards.clear();
                    meanwhile[1] = interrupts_are_on();
                    // These restore the state before them.
                    drop(interrupt::local_interrupt_disable());
                    meanwhile[2] = interrupts_are_on();
                });
                let afterwards = interrupts_are_on();
                enable_interrupts();

                assert_eq!(meanwhile, [false; 3]);
                // As after a leak, if there were too many.
                assert_eq!(afterwards, count + depth <= 128);
                assert!(!in_atomic());
                assert!(!with_interrupts_disabled(|_| interrupts_are_on()));
                assert!(interrupts_are_on());
            }
        }
        Ok(())
    }

    #[test]
    fn interrupts_are_off_after_an_interrupt_leaked_guards() -> Result {
        for count in [1, 127, 128, 200] {
            let leaked = kernels(count)?;
            // As the return from an interrupt does.
            enable_interrupts();
            let before = interrupts_are_on();
            let meanwhile = with_interrupts_disabled(|_| interrupts_are_on());
            drop(leaked);
            enable_interrupts();

            assert!(before);
            assert!(!meanwhile);
            assert!(!in_atomic());
        }
        Ok(())
    }

    #[test]
    fn preemption_guards_drop_in_any_order() {
        let (outer, inner) = (preempt_disable(), preempt_disable());
        drop(outer);
        let without_outer = in_atomic();
        drop(inner);

        assert!(without_outer);
        assert!(!in_atomic());
        assert!(interrupts_are_on());
    }
}
