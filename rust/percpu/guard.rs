// SPDX-License-Identifier: GPL-2.0

//! Proofs that a task has its CPU to itself, or at least does not leave it.

use kernel::types::NotThreadSafe;

use crate::bindings;

/// Proof that interrupts are off on this CPU, until it is dropped.
///
/// As long as it lives no other task, no soft and no hard interrupt runs on this CPU, unless the
/// owner of the proof sleeps, or calls C that turns interrupts on whatever they were: it must not,
/// and types do not prevent that, as for every guard of the kernel. An NMI may still come.
///
/// Proofs nest, up to 255 of them, and may be dropped in any order: interrupts are on again when
/// the last is dropped, if they were when the first was made. The kernel's own
/// [`SpinLockIrq`](kernel::sync::SpinLockIrq) counts in the same place. A leaked proof leaves
/// interrupts off.
///
/// Nothing checks that there are not more, as nothing does in C: the count is a byte of
/// `preempt_count()`. With more of them interrupts stay off for good.
///
/// The type of the same name in [`kernel::interrupt`] proves nothing on kernels without
/// preemption, hence this one.
///
/// # Invariants
///
/// A call of `local_interrupt_disable()` by this task on this CPU has no `local_interrupt_enable()`
/// yet.
#[must_use = "interrupts are on again as soon as it is dropped"]
pub struct LocalInterruptDisabled(NotThreadSafe);

/// Turns interrupts off on this CPU.
///
/// Context: any but NMI. Never sleeps. C: `local_interrupt_disable()` in
/// `include/linux/interrupt_rc.h`.
#[inline]
pub fn local_interrupt_disable() -> LocalInterruptDisabled {
    // SAFETY: `local_interrupt_disable()` saves the state of interrupts and may be called in any of
    // them.
    unsafe { bindings::local_interrupt_disable() };

    // INVARIANT: Just called.
    LocalInterruptDisabled(NotThreadSafe)
}

impl Drop for LocalInterruptDisabled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: There is a call of `local_interrupt_disable()` to undo by the type invariants. It
        // was made on this CPU, as a task stays where it is while interrupts are off, and by this
        // task, as the proof is not `Send`.
        unsafe { bindings::local_interrupt_enable() };
    }
}

/// Keeps the task on its CPU, until it is dropped.
///
/// Interrupts may still come, and the task must not sleep. Nests, in any order. A leaked one leaves
/// preemption off.
///
/// The count is a byte of `preempt_count()`. When it is at 128, any more proofs do not count, as they
/// would run over into the bytes that count interrupts. Who has as many has most likely leaked them;
/// otherwise preemption may be on again before the last that does not count is dropped.
///
/// # Invariants
///
/// If `is_counted` then a call of `preempt_disable()` by this task has no `preempt_enable()` yet.
#[must_use = "preemption is on again as soon as it is dropped"]
pub struct PreemptDisabled {
    is_counted: bool,
    _task: NotThreadSafe,
}

/// Turns preemption off.
///
/// Context: any. Never sleeps. C: `preempt_disable()` in `include/linux/preempt.h`.
#[inline]
pub fn preempt_disable() -> PreemptDisabled {
    // SAFETY: `preempt_disable()` may be called anywhere.
    let is_counted = unsafe { bindings::preempt_disable_unless_deep() };

    // INVARIANT: Just called, if it tells so.
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
        // SAFETY: There is a call of `preempt_disable()` to undo by the type invariants, and it was
        // made by this task, as the proof is not `Send`.
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
        // SAFETY: The helper only looks at the state of this CPU.
        unsafe { bindings::in_atomic() }
    }

    fn interrupts_are_on() -> bool {
        // SAFETY: The helper only looks at the state of this CPU.
        unsafe { bindings::in_task_irqs_on() }
    }

    #[test]
    fn interrupts_are_off_until_the_proof_is_dropped() {
        assert!(interrupts_are_on());
        let proof = local_interrupt_disable();
        let while_alive = interrupts_are_on();
        drop(proof);

        assert!(!while_alive);
        assert!(interrupts_are_on());
    }

    #[test]
    fn interrupts_are_off_until_the_last_proof_is_dropped_in_any_order() {
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
        // SAFETY: The helper only looks at the state of this CPU.
        unsafe { bindings::in_interrupt_or_irqs_off() }
    }

    #[test]
    fn proofs_that_are_too_many_count_as_no_interrupt() -> Result {
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

    #[test]
    fn preemption_is_off_until_the_last_proof_is_dropped_in_any_order() {
        let (outer, inner) = (preempt_disable(), preempt_disable());
        drop(outer);
        let without_outer = in_atomic();
        drop(inner);

        assert!(without_outer);
        assert!(!in_atomic());
        assert!(interrupts_are_on());
    }
}
