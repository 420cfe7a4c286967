/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KSCALE_PREEMPT_H
#define _KSCALE_PREEMPT_H

struct task_struct;

/* The guards of disabled interrupts on a CPU. */
struct kscale_interrupt_guards {
	/* The task that owns them, or that they interrupted. NULL if there is none. */
	struct task_struct *task;
	unsigned long count;
};

#endif
