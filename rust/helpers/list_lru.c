// SPDX-License-Identifier: GPL-2.0

#include <linux/list_lru.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

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
 * The tasks that isolate an item. The lock of a list is a sleeping lock here, so several may do so on a
 * CPU. Nothing is on their stacks: a callback that panics does not return. Its task is not freed then, so
 * that no other task has its address.
 */
extern struct task_struct *kscale_list_lru_walkers[KSCALE_LIST_LRU_SLOTS];
extern atomic_t kscale_list_lru_nr_walkers;

__kscale_helper void kscale_helper_list_lru_begin_isolate(struct kscale_list_lru_walker *walker)
{
	struct task_struct **slot = kscale_list_lru_walkers;

	get_task_struct(current);
	atomic_inc(&kscale_list_lru_nr_walkers);
	for (; slot < kscale_list_lru_walkers + KSCALE_LIST_LRU_SLOTS; slot++) {
		if (!READ_ONCE(*slot) && !cmpxchg(slot, NULL, current)) {
			walker->slot = slot;
			return;
		}
	}
	/* The callback can use other lists then, with the risk of a deadlock. */
	walker->slot = NULL;
}

__kscale_helper void kscale_helper_list_lru_end_isolate(struct kscale_list_lru_walker *walker)
{
	if (walker->slot)
		WRITE_ONCE(*walker->slot, NULL);
	atomic_dec(&kscale_list_lru_nr_walkers);
	put_task_struct(current);
}

/* Whether the current task isolates an item. */
__kscale_helper bool kscale_helper_list_lru_in_isolate(void)
{
	unsigned int i;

	if (!atomic_read(&kscale_list_lru_nr_walkers))
		return false;
	for (i = 0; i < KSCALE_LIST_LRU_SLOTS; i++)
		if (READ_ONCE(kscale_list_lru_walkers[i]) == current)
			return true;
	return false;
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
