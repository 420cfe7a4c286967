/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KSCALE_LIST_LRU_H
#define _KSCALE_LIST_LRU_H

struct task_struct;

/* What a walk that looks at an item keeps on the stack of its task. */
struct kscale_list_lru_walker {
	/* With CONFIG_PREEMPT_RT who walks, otherwise who walks around this. */
	struct task_struct *task;
	/* With CONFIG_PREEMPT_RT the one that began before this on this CPU and has not ended yet. */
	struct kscale_list_lru_walker *next;
};

#endif
