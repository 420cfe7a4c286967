// SPDX-License-Identifier: GPL-2.0

#include <linux/interrupt_rc.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/sched.h>

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

__kscale_helper bool kscale_helper_in_interrupt(void)
{
	return in_interrupt();
}

__kscale_helper bool kscale_helper_in_worker(void)
{
	return current->flags & PF_WQ_WORKER;
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
 * As local_interrupt_disable(), and returns true, unless half of the bits that preempt_count() has for it
 * are in use. The other half is for the kernel's own guards.
 *
 * Beyond that, makes interrupts stay disabled when the last counted guard ends, which may be before the
 * end of the caller's section.
 */
__kscale_helper bool kscale_helper_local_interrupt_disable_unless_deep(void)
{
	unsigned long flags;

	if (likely((preempt_count() & HARDIRQ_DISABLE_MASK) <= HARDIRQ_DISABLE_MASK / 2)) {
		local_interrupt_disable();
		return true;
	}
	local_irq_disable();
	local_save_flags(flags);
	_local_interrupt_save_state(flags);
	return false;
}

__kscale_helper void kscale_helper_local_interrupt_enable(void)
{
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

/* Whether memory may be allocated without a wait. With CONFIG_PREEMPT_RT, the allocator has sleeping locks. */
__kscale_helper bool kscale_helper_may_allocate_nowait(void)
{
	return IS_ENABLED(CONFIG_PREEMPT_RT) ? preemptible() : !in_hardirq();
}
