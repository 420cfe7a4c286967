// SPDX-License-Identifier: GPL-2.0

#include <linux/list_lru.h>
#include <linux/percpu.h>
#include <linux/sched.h>

/*
 * The task that looks at an item on this CPU, with a list locked: it stays on this CPU then, and no
 * other one runs here. Not so with CONFIG_PREEMPT_RT, where spinlocks sleep.
 */
DECLARE_PER_CPU(struct task_struct *, kscale_list_lru_walker);

/* Returns what kscale_helper_list_lru_end_isolate() restores: a walk may drop a list, which walks it. */
__kscale_helper struct task_struct *kscale_helper_list_lru_begin_isolate(void)
{
	struct task_struct *outer = NULL;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT)) {
		outer = raw_cpu_read(kscale_list_lru_walker);
		raw_cpu_write(kscale_list_lru_walker, current);
	}
	return outer;
}

__kscale_helper void kscale_helper_list_lru_end_isolate(struct task_struct *outer)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		raw_cpu_write(kscale_list_lru_walker, outer);
}

/* Whether the current task is between the two, or was interrupted there. */
__kscale_helper bool kscale_helper_list_lru_in_isolate(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) && raw_cpu_read(kscale_list_lru_walker) == current;
}

__kscale_helper unsigned long kscale_helper_list_lru_count(struct list_lru *lru)
{
	return list_lru_count(lru);
}

__kscale_helper unsigned long kscale_helper_list_lru_shrink_count(struct list_lru *lru,
								  struct shrink_control *sc)
{
	return list_lru_shrink_count(lru, sc);
}

/* As list_lru_walk(), which does not tell how many items are left to walk. */
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
