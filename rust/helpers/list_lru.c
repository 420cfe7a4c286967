// SPDX-License-Identifier: GPL-2.0

#include <linux/list_lru.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../mm/list_lru.h"

#ifndef CONFIG_PREEMPT_RT

/*
 * The task that isolates an item on this CPU. It holds the spinlock of a list, so it stays on this CPU
 * and no other task runs here.
 */
DECLARE_PER_CPU(struct task_struct *, kscale_list_lru_walker);

/* May be nested: a walk may drop another list, which walks that list. */
__kscale_helper void kscale_helper_list_lru_begin_isolate(struct kscale_list_lru_walker *walker)
{
	walker->task = raw_cpu_read(kscale_list_lru_walker);
	raw_cpu_write(kscale_list_lru_walker, current);
}

__kscale_helper void kscale_helper_list_lru_end_isolate(struct kscale_list_lru_walker *walker)
{
	raw_cpu_write(kscale_list_lru_walker, walker->task);
}

/* Whether the current task, or the task that an interrupt interrupted, isolates an item. */
__kscale_helper bool kscale_helper_list_lru_in_isolate(void)
{
	return raw_cpu_read(kscale_list_lru_walker) == current;
}

#else /* CONFIG_PREEMPT_RT */

/*
 * The tasks that isolate an item on this CPU. The lock of a list is a sleeping lock here, so other tasks
 * may run meanwhile, but each task stays on this CPU. Accessed with preemption disabled.
 */
DECLARE_PER_CPU(struct kscale_list_lru_walker *, kscale_list_lru_walkers);

__kscale_helper void kscale_helper_list_lru_begin_isolate(struct kscale_list_lru_walker *walker)
{
	preempt_disable();
	walker->task = current;
	walker->next = __this_cpu_read(kscale_list_lru_walkers);
	__this_cpu_write(kscale_list_lru_walkers, walker);
	preempt_enable();
}

__kscale_helper void kscale_helper_list_lru_end_isolate(struct kscale_list_lru_walker *walker)
{
	struct kscale_list_lru_walker **link;

	preempt_disable();
	link = this_cpu_ptr(&kscale_list_lru_walkers);
	while (*link != walker)
		link = &(*link)->next;
	*link = walker->next;
	preempt_enable();
}

/* Whether the current task isolates an item. */
__kscale_helper bool kscale_helper_list_lru_in_isolate(void)
{
	struct kscale_list_lru_walker *walker;

	preempt_disable();
	walker = __this_cpu_read(kscale_list_lru_walkers);
	while (walker && walker->task != current)
		walker = walker->next;
	preempt_enable();
	return walker;
}

#endif /* CONFIG_PREEMPT_RT */

__kscale_helper unsigned long kscale_helper_list_lru_count(struct list_lru *lru)
{
	return list_lru_count(lru);
}

__kscale_helper unsigned long kscale_helper_list_lru_shrink_count(struct list_lru *lru,
								  struct shrink_control *sc)
{
	return list_lru_shrink_count(lru, sc);
}

/* As list_lru_walk(), but updates the number of items that are left to walk. */
__kscale_helper void kscale_helper_list_lru_walk(struct list_lru *lru, list_lru_walk_cb isolate,
						 void *cb_arg, unsigned long *nr_to_walk)
{
	int nid;

	for_each_node_state(nid, N_NORMAL_MEMORY) {
		list_lru_walk_node(lru, nid, isolate, cb_arg, nr_to_walk);
		if (!*nr_to_walk)
			break;
	}
}
