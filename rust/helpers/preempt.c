// SPDX-License-Identifier: GPL-2.0

#include <linux/interrupt_rc.h>
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

__kscale_helper bool kscale_helper_in_atomic(void)
{
	return in_atomic();
}

__kscale_helper bool kscale_helper_in_task_irqs_on(void)
{
	return in_task() && !irqs_disabled();
}

__kscale_helper bool kscale_helper_irqs_on(void)
{
	return !in_hardirq() && !irqs_disabled();
}

__kscale_helper bool kscale_helper_in_hardirq(void)
{
	return in_hardirq();
}

__kscale_helper bool kscale_helper_in_interrupt_or_irqs_off(void)
{
	return in_interrupt() || irqs_disabled();
}

__kscale_helper bool kscale_helper_in_nmi(void)
{
	return in_nmi();
}

/*
 * Disables preemption and returns true, unless the preemption count is above half its maximum. The
 * other half is for spinlocks.
 */
__kscale_helper bool kscale_helper_preempt_disable_unless_deep(void)
{
	if (unlikely((preempt_count() & PREEMPT_MASK) > PREEMPT_MASK / 2))
		return false;
	preempt_disable();
	return true;
}

__kscale_helper void kscale_helper_preempt_enable(void)
{
	preempt_enable();
}

/*
 * Calls of kscale_helper_local_interrupt_disable() on this CPU that preempt_count() does not count. Its
 * field has 8 bits, and an overflow changes the fields of interrupts and NMIs. So these calls use half of
 * the field; the other half is left to spinlocks.
 */
DECLARE_PER_CPU(unsigned long, kscale_interrupt_disable_more);

static __always_inline bool kscale_interrupt_disable_is_deep(void)
{
	return (preempt_count() & HARDIRQ_DISABLE_MASK) > HARDIRQ_DISABLE_MASK / 2;
}

/*
 * As local_interrupt_disable(), without a limit on the number of nested calls.
 *
 * Interrupts may be enabled at any depth: an interrupt that leaks its proofs returns to a task with
 * interrupts enabled, and preempt_count() still counts them.
 */
__kscale_helper void kscale_helper_local_interrupt_disable(void)
{
	if (unlikely(kscale_interrupt_disable_is_deep())) {
		local_irq_disable();
		raw_cpu_inc(kscale_interrupt_disable_more);
	} else {
		local_interrupt_disable();
	}
}

/* The reverse. Calls that preempt_count() does not count are reversed first. */
__kscale_helper void kscale_helper_local_interrupt_enable(void)
{
	if (unlikely(raw_cpu_read(kscale_interrupt_disable_more))) {
		if (kscale_interrupt_disable_is_deep()) {
			raw_cpu_dec(kscale_interrupt_disable_more);
			return;
		}
		/* Left by a task that leaked its proofs and slept. */
		raw_cpu_write(kscale_interrupt_disable_more, 0);
	}
	local_interrupt_enable();
}

__kscale_helper void kscale_helper_local_irq_enable(void)
{
	local_irq_enable();
}

/* False without CONFIG_PREEMPT_COUNT, as in_atomic() does not detect spinlocks then. */
__kscale_helper bool kscale_helper_may_block(void)
{
	return IS_ENABLED(CONFIG_PREEMPT_COUNT) && !in_atomic() && !irqs_disabled() &&
	       !rcu_preempt_depth();
}
