// SPDX-License-Identifier: GPL-2.0

#include <linux/list_lru.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "../mm/list_lru.h"

/*
 * A callback that panics does not return. Then the address of its task stays below. The task has a
 * reference during the whole walk, which is leaked then, so that no other task gets the address.
 */

#ifndef CONFIG_PREEMPT_RT

/*
 * The task that isolates an item on this CPU. It holds the spinlock of a list, so it stays on this CPU
 * and no other task runs here.
 */
DECLARE_PER_CPU(struct task_struct *, kscale_list_lru_walker);

/* May be nested: a walk may drop another list, which walks that list. */
__kscale_helper bool kscale_helper_list_lru_begin_isolate(struct kscale_list_lru_walker *walker)
{
	walker->task = raw_cpu_read(kscale_list_lru_walker);
	raw_cpu_write(kscale_list_lru_walker, current);
	return true;
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
 * CPU. Nothing is on their stacks, which are freed after a panic.
 */
extern struct task_struct *kscale_list_lru_walkers[KSCALE_LIST_LRU_SLOTS];
extern atomic_t kscale_list_lru_nr_walkers;

/* Returns false if all slots are in use. Then the callback must not be called. */
__kscale_helper bool kscale_helper_list_lru_begin_isolate(struct kscale_list_lru_walker *walker)
{
	struct task_struct **slot = kscale_list_lru_walkers;

	/* The task in a slot is not freed before the slot is cleared, and then after a grace period. */
	guard(rcu)();
	for (; slot < kscale_list_lru_walkers + KSCALE_LIST_LRU_SLOTS; slot++) {
		struct task_struct *task = READ_ONCE(*slot);

		/* The slot of a task that has panicked is used again. */
		if (task && !READ_ONCE(task->exit_state))
			continue;
		if (cmpxchg(slot, task, current) != task)
			continue;
		if (!task)
			atomic_inc(&kscale_list_lru_nr_walkers);
		walker->slot = slot;
		return true;
	}
	return false;
}

__kscale_helper void kscale_helper_list_lru_end_isolate(struct kscale_list_lru_walker *walker)
{
	WRITE_ONCE(*walker->slot, NULL);
	atomic_dec(&kscale_list_lru_nr_walkers);
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
