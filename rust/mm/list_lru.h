/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KSCALE_LIST_LRU_H
#define _KSCALE_LIST_LRU_H

struct task_struct;

/* A call of a walk's callback, on the stack of its task. */
struct kscale_list_lru_walker {
	/* CONFIG_PREEMPT_RT: the walking task. Otherwise: the task of the outer call, or NULL. */
	struct task_struct *task;
	/* CONFIG_PREEMPT_RT: the previous call on this CPU that is still running. */
	struct kscale_list_lru_walker *next;
};

#endif
