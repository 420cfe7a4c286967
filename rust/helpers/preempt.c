// SPDX-License-Identifier: GPL-2.0

#include <linux/interrupt_rc.h>
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../percpu/preempt.h"

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
 * The guards of this CPU. preempt_count() has 8 bits for local_interrupt_disable(), and an overflow changes
 * the fields of interrupts and NMIs. So it counts the guards of a task once, from the first to the last:
 * its field is not 0 while a guard lives, in whichever order these and the kernel's own guards end.
 */
DECLARE_PER_CPU(struct kscale_interrupt_guards, kscale_interrupt_guards);

/*
 * As local_interrupt_disable(), without a limit on the number of nested calls.
 *
 * Interrupts may be enabled although guards are left: an interrupt that leaks its guards returns to a task
 * with interrupts enabled. A task that leaked guards and slept leaves a count that means nothing.
 */
__kscale_helper void kscale_helper_local_interrupt_disable(void)
{
	local_interrupt_disable();
	if (unlikely(raw_cpu_read(kscale_interrupt_guards.task) == current) &&
	    (preempt_count() & HARDIRQ_DISABLE_MASK) != HARDIRQ_DISABLE_OFFSET) {
		raw_cpu_inc(kscale_interrupt_guards.count);
		/* Interrupts stay disabled: the first guard is counted. */
		local_interrupt_enable();
		return;
	}
	raw_cpu_write(kscale_interrupt_guards.task, current);
	raw_cpu_write(kscale_interrupt_guards.count, 1);
}

/* The reverse. */
__kscale_helper void kscale_helper_local_interrupt_enable(void)
{
	if (unlikely(raw_cpu_read(kscale_interrupt_guards.count) > 1)) {
		raw_cpu_dec(kscale_interrupt_guards.count);
		return;
	}
	raw_cpu_write(kscale_interrupt_guards.task, NULL);
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
