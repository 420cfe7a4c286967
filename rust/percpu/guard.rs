// SPDX-License-Identifier: GPL-2.0

//! Proofs that interrupts or preemption are disabled on this CPU.

use kernel::types::NotThreadSafe;

use crate::bindings;

/// Evidence that interrupts are disabled on this CPU.
///
/// While the proof lives, no other task, no softirq and no hard interrupt runs on this CPU. An NMI
/// may still run. The owner of the proof must not sleep, and must not call C code that enables
/// interrupts unconditionally. Types do not prevent this, as for every guard of the kernel.
///
/// Proofs nest, and may be dropped in any order. The drop of the last proof restores the state of
/// interrupts before the first proof. A leaked proof leaves interrupts disabled.
///
/// The count is a byte of `preempt_count()`, which the kernel's
/// [`SpinLockIrq`](kernel::sync::SpinLockIrq) uses, too. At a depth of 128, further proofs are not
/// counted, because an overflow would corrupt the counts of interrupts and NMIs. A task at this depth
/// has most likely leaked proofs. So an uncounted proof disables interrupts as a leaked proof does:
/// they stay disabled after the last drop, until the task sleeps.
///
/// The type of the same name in [`kernel::interrupt`] proves nothing on kernels without preemption;
/// hence this type.
///
/// # Invariants
///
/// If `is_counted`, a call of `local_interrupt_disable()` by this task on this CPU has no matching
/// `local_interrupt_enable()` yet. Otherwise the matching calls of all others leave interrupts
/// disabled.
#[must_use = "interrupts are on again as soon as it is dropped"]
pub struct IrqsOffGuard {
    is_counted: bool,
    _task: NotThreadSafe,
}

/// Disables interrupts on this CPU.
///
/// Context: Any context except NMI. Never sleeps. C: `local_interrupt_disable()` in
/// `include/linux/interrupt_rc.h`.
#[inline]
pub fn local_interrupt_disable() -> IrqsOffGuard {
    // SAFETY: The helper saves the state of interrupts, and may be called in any state.
    let is_counted = unsafe { bindings::local_interrupt_disable_unless_deep() };

    // INVARIANT: The call above has no matching call yet, or has set the state that the last
    // `local_interrupt_enable()` restores to "disabled".
    IrqsOffGuard {
        is_counted,
        _task: NotThreadSafe,
    }
}

impl Drop for IrqsOffGuard {
    #[inline]
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        // SAFETY: By the type invariants a call of `local_interrupt_disable()` has no matching call
        // yet. It was made on this CPU, as a task does not migrate while interrupts are disabled.
        // It was made by this task, as the proof is not `Send`.
        unsafe { bindings::local_interrupt_enable() };
    }
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
        interrupt,
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

    #[test]
    fn interrupts_are_off_until_the_guard_is_dropped() {
        assert!(interrupts_are_on());
        let proof = local_interrupt_disable();
        let while_alive = interrupts_are_on();
        drop(proof);

        assert!(!while_alive);
        assert!(interrupts_are_on());
    }

    #[test]
    fn nested_guards_drop_in_any_order() {
        let (outer, inner) = (local_interrupt_disable(), local_interrupt_disable());
        let kernels = interrupt::local_interrupt_disable();
        drop(outer);
        let without_outer = interrupts_are_on();
        drop(inner);
        let with_kernels = interrupts_are_on();
        drop(kernels);

        assert!(!without_outer);
        assert!(!with_kernels);
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

    /// Creates proofs. All fit into the vector.
    fn proofs(count: usize) -> Result<KVec<IrqsOffGuard>> {
        let mut proofs = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            drop(proofs.push_within_capacity(local_interrupt_disable()));
        }
        Ok(proofs)
    }

    /// Enables interrupts, as the kernel does when a task with leaked proofs sleeps.
    fn enable_interrupts() {
        // SAFETY: No proof is left that the caller relies on.
        unsafe { bindings::local_irq_enable() };
    }

    #[test]
    fn interrupts_are_off_until_the_last_of_many_guards_is_dropped() -> Result {
        // More than there are bits for, up to that of an NMI.
        for count in [128, 129, 256, 5000] {
            let mut proofs = proofs(count)?;
            let while_alive = (in_nmi(), in_hardirq(), interrupts_are_on());
            let kernels = interrupt::local_interrupt_disable();
            // Those that are left are not the first that were made.
            let last = proofs.pop();
            drop(proofs);
            drop(kernels);
            let with_the_last = interrupts_are_on();
            drop(last);
            let without = interrupts_are_on();
            // These restore the state before them.
            drop((
                local_interrupt_disable(),
                interrupt::local_interrupt_disable(),
            ));
            let later = interrupts_are_on();
            enable_interrupts();

            assert_eq!(while_alive, (false, false, false));
            assert!(!with_the_last);
            // As after a leak, if there were too many.
            assert_eq!((without, later), (count <= 128, count <= 128));
            assert!(!in_atomic());
            drop(local_interrupt_disable());
            assert!(interrupts_are_on());
        }
        Ok(())
    }

    /// Creates `kernels` guards of the kernel and then `proofs` proofs, drops the former and then all
    /// but one proof. Returns whether interrupts are off then.
    fn the_last_is_a_proof_beside(kernels: usize, count: usize) -> Result<bool> {
        let mut of_kernel = KVec::with_capacity(kernels, GFP_KERNEL)?;
        let mut ours = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..kernels {
            drop(of_kernel.push_within_capacity(interrupt::local_interrupt_disable()));
        }
        for _ in 0..count {
            drop(ours.push_within_capacity(local_interrupt_disable()));
        }
        drop(of_kernel);
        let last = ours.pop();
        drop(ours);
        let is_off = !interrupts_are_on();
        drop(last);
        Ok(is_off)
    }

    #[test]
    fn interrupts_are_off_after_many_guards_of_the_kernel_are_dropped() -> Result {
        for kernels in [0, 1, 2, 127, 128, 200] {
            for count in [1, 2, 127, 128, 129, 1000] {
                assert!(the_last_is_a_proof_beside(kernels, count)?);
                assert_eq!(interrupts_are_on(), kernels + count <= 128);
                enable_interrupts();
                assert!(!in_atomic());
            }
        }
        Ok(())
    }

    /// The kernel corrects `preempt_count()` when a task or a function leaves proofs behind.
    #[test]
    fn interrupts_are_off_after_leaked_guards_were_corrected() -> Result {
        for count in [1, 2, 128, 1000] {
            let mut leaked = proofs(count)?;
            // As `do_one_initcall()` in `init/main.c` does. The proofs are not used as such.
            for proof in &mut leaked {
                if core::mem::replace(&mut proof.is_counted, false) {
                    // SAFETY: The proof is not counted any more.
                    unsafe { bindings::local_interrupt_enable() };
                }
            }
            enable_interrupts();

            // The kernel's comes first: nothing sees that no proof is left.
            let kernels = interrupt::local_interrupt_disable();
            let proof = local_interrupt_disable();
            drop(kernels);
            let while_alive = interrupts_are_on();
            drop(proof);

            assert!(!while_alive);
            assert!(interrupts_are_on());
            assert!(!in_atomic());
        }
        Ok(())
    }

    #[test]
    fn interrupts_are_off_after_an_interrupt_leaked_guards() -> Result {
        for count in [1, 127, 128, 1000] {
            let leaked = proofs(count)?;
            // As the return from an interrupt does.
            enable_interrupts();
            let before = interrupts_are_on();
            let proof = local_interrupt_disable();
            let while_alive = interrupts_are_on();
            drop(proof);
            drop(leaked);
            enable_interrupts();

            assert!(before);
            assert!(!while_alive);
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
