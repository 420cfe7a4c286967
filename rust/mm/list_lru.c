// SPDX-License-Identifier: GPL-2.0
/* Per-CPU data of helpers/list_lru.c, which is inlined into other modules. */

#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/percpu.h>

#include "list_lru.h"

#ifndef CONFIG_PREEMPT_RT
DECLARE_PER_CPU(struct task_struct *, kscale_list_lru_walker);
DEFINE_PER_CPU(struct task_struct *, kscale_list_lru_walker);
EXPORT_PER_CPU_SYMBOL_GPL(kscale_list_lru_walker);
#else
extern struct task_struct *kscale_list_lru_walkers[KSCALE_LIST_LRU_SLOTS];
struct task_struct *kscale_list_lru_walkers[KSCALE_LIST_LRU_SLOTS];
EXPORT_SYMBOL_GPL(kscale_list_lru_walkers);

extern atomic_t kscale_list_lru_nr_walkers;
atomic_t kscale_list_lru_nr_walkers;
EXPORT_SYMBOL_GPL(kscale_list_lru_nr_walkers);
#endif
