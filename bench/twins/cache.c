// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of the benchmark `kvfree-rcu-pages`: the page cache of kvfree_rcu() in
 * mm/slab_common.c, a per-CPU list and count with a lock. The files in bench_cache_c/ of debugfs
 * have the same names.
 */

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "twins.h"

/* As in bench/cache.rs. */
#define TASK_CALLS	20000
#define MAX_TASKS	4
#define PAGES_PER_CPU	8

struct cache {
	raw_spinlock_t lock;
	struct llist_head bkvcache;
	int nr_bkv_objs;
};

static struct cache __percpu *caches;

/* Returns the cache of this CPU, or of the CPU with this number. */
#define LOCAL		(-1)

static __always_inline struct cache *lock_cache(int cpu, unsigned long *flags)
{
	struct cache *cache;

	local_irq_save(*flags);
	cache = cpu == LOCAL ? this_cpu_ptr(caches) : per_cpu_ptr(caches, cpu);
	raw_spin_lock(&cache->lock);
	return cache;
}

/* As get_cached_bnode() in mm/slab_common.c, below the lock. */
static __always_inline struct llist_node *get_cached(struct cache *cache)
{
	if (!cache->nr_bkv_objs)
		return NULL;
	WRITE_ONCE(cache->nr_bkv_objs, cache->nr_bkv_objs - 1);
	return llist_del_first(&cache->bkvcache);
}

static __always_inline struct llist_node *get(int cpu)
{
	unsigned long flags;
	struct cache *cache = lock_cache(cpu, &flags);
	struct llist_node *page = get_cached(cache);

	raw_spin_unlock_irqrestore(&cache->lock, flags);
	return page;
}

static __always_inline void put(int cpu, struct llist_node *page)
{
	unsigned long flags;
	struct cache *cache = lock_cache(cpu, &flags);

	if (cache->nr_bkv_objs < PAGES_PER_CPU) {
		llist_add(page, &cache->bkvcache);
		WRITE_ONCE(cache->nr_bkv_objs, cache->nr_bkv_objs + 1);
		page = NULL;
	}
	raw_spin_unlock_irqrestore(&cache->lock, flags);
	if (page)
		free_page((unsigned long)page);
}

static __always_inline void get_and_put(int cpu)
{
	struct llist_node *page = black_box(get(cpu));

	if (page)
		put(cpu, page);
}

static noinline s64 measure_local(void)
{
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();

	for (unsigned long i = 0; i < calls; i++)
		get_and_put(LOCAL);
	return ktime_sub(ktime_get(), begin);
}

static noinline s64 measure_remote(int cpu)
{
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();

	for (unsigned long i = 0; i < calls; i++)
		get_and_put(cpu);
	return ktime_sub(ktime_get(), begin);
}

/*
 * As the two callers in mm/slab_common.c: add_ptr_to_bulk_krc_lock() has the lock of the cache for other
 * work when it gets a page, and kvfree_rcu_bulk() acquires the lock to put it.
 */
static noinline s64 measure_callers(void)
{
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();

	for (unsigned long i = 0; i < calls; i++) {
		unsigned long flags;
		struct cache *cache = lock_cache(LOCAL, &flags);
		struct llist_node *page = black_box(get_cached(cache));

		raw_spin_unlock_irqrestore(&cache->lock, flags);
		if (page)
			put(LOCAL, page);
	}
	return ktime_sub(ktime_get(), begin);
}

/* The lock that the callers have anyway. */
static noinline s64 measure_without_callers(void)
{
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();

	for (unsigned long i = 0; i < calls; i++) {
		unsigned long flags;
		struct cache *cache = black_box(lock_cache(LOCAL, &flags));

		raw_spin_unlock_irqrestore(&cache->lock, flags);
	}
	return ktime_sub(ktime_get(), begin);
}

/* The loop alone. */
static noinline s64 measure_without_local(void)
{
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();

	for (unsigned long i = 0; i < calls; i++)
		barrier();
	return ktime_sub(ktime_get(), begin);
}

#define DEFINE_COST_FILE(name, call)					\
static int name##_show(struct seq_file *m, void *v)			\
{									\
	for (int i = 0; i < ROUNDS; i++)				\
		seq_printf(m, "%lld %lu\n", call, CALLS);		\
	return 0;							\
}									\
DEFINE_SHOW_ATTRIBUTE(name)

DEFINE_COST_FILE(cost_local, measure_local());
DEFINE_COST_FILE(cost_remote, measure_remote(0));
DEFINE_COST_FILE(cost_callers, measure_callers());
DEFINE_COST_FILE(cost_without_local, measure_without_local());
DEFINE_COST_FILE(cost_without_callers, measure_without_callers());

struct task {
	struct work_struct work;
	struct completion *start;
	int cpu;
};

static void task_fn(struct work_struct *work)
{
	struct task *task = container_of(work, struct task, work);

	wait_for_completion(task->start);
	if (task->cpu == LOCAL)
		for (int i = 0; i < TASK_CALLS; i++)
			get_and_put(LOCAL);
	else
		for (int i = 0; i < TASK_CALLS; i++)
			get_and_put(task->cpu);
}

struct measurement {
	const char *name;
	int tasks;
	int cpu;
};

static const struct measurement files[] = {
	{ "tasks-1_local", 1, LOCAL },
	{ "tasks-2_local", 2, LOCAL },
	{ "tasks-4_local", 4, LOCAL },
	{ "tasks-1_remote", 1, 0 },
	{ "tasks-2_remote", 2, 0 },
	{ "tasks-4_remote", 4, 0 },
};

static int tasks_show(struct seq_file *m, void *v)
{
	DECLARE_COMPLETION_ONSTACK(start);
	const struct measurement *file = m->private;
	struct task tasks[MAX_TASKS];
	ktime_t begin;

	for (int i = 0; i < file->tasks; i++) {
		tasks[i].start = &start;
		tasks[i].cpu = file->cpu;
		INIT_WORK_ONSTACK(&tasks[i].work, task_fn);
		queue_work(system_dfl_wq, &tasks[i].work);
	}
	begin = ktime_get();
	complete_all(&start);
	for (int i = 0; i < file->tasks; i++) {
		flush_work(&tasks[i].work);
		destroy_work_on_stack(&tasks[i].work);
	}
	seq_printf(m, "%lld %d\n", ktime_sub(ktime_get(), begin), file->tasks * TASK_CALLS);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tasks);

static struct dentry *dir;

static void cache_exit(void)
{
	int cpu;

	debugfs_remove(dir);
	for_each_possible_cpu(cpu) {
		struct llist_node *page;

		while ((page = get(cpu)))
			free_page((unsigned long)page);
	}
	free_percpu(caches);
}
module_exit(cache_exit);

static int __init cache_init(void)
{
	int cpu;

	caches = alloc_percpu(struct cache);
	if (!caches)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		raw_spin_lock_init(&per_cpu_ptr(caches, cpu)->lock);
	for_each_possible_cpu(cpu) {
		for (int i = 0; i < PAGES_PER_CPU; i++) {
			struct llist_node *page = (void *)__get_free_page(GFP_KERNEL);

			if (!page) {
				cache_exit();
				return -ENOMEM;
			}
			put(cpu, page);
		}
	}

	dir = debugfs_create_dir("bench_cache_c", NULL);
	debugfs_create_file("cost-local", 0400, dir, NULL, &cost_local_fops);
	debugfs_create_file("cost-remote", 0400, dir, NULL, &cost_remote_fops);
	debugfs_create_file("cost-callers", 0400, dir, NULL, &cost_callers_fops);
	debugfs_create_file("cost-without_local", 0400, dir, NULL, &cost_without_local_fops);
	debugfs_create_file("cost-without_remote", 0400, dir, NULL, &cost_without_local_fops);
	debugfs_create_file("cost-without_callers", 0400, dir, NULL, &cost_without_callers_fops);
	for (int i = 0; i < ARRAY_SIZE(files); i++)
		debugfs_create_file(files[i].name, 0400, dir, (void *)&files[i], &tasks_fops);
	return 0;
}
module_init(cache_init);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Cost of get and put of a page, in C");
MODULE_LICENSE("GPL");
