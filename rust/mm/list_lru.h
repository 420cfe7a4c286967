/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KSCALE_LIST_LRU_H
#define _KSCALE_LIST_LRU_H

struct task_struct;

/* A call of a walk's callback, on the stack of its task. */
struct kscale_list_lru_walker {
	/* Without CONFIG_PREEMPT_RT: the task of the outer call, or NULL. */
	struct task_struct *task;
	/* CONFIG_PREEMPT_RT: the slot of the walking task. */
	struct task_struct **slot;
};

/* CONFIG_PREEMPT_RT: the number of tasks that can be in a callback and be known. */
#define KSCALE_LIST_LRU_SLOTS 256

#endif
