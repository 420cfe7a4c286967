// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of the benchmark `dm-crypt-page-limit`: the modes `exact` and `approx` of
 * bench/limiter.rs. The files in bench_limiter_c/ of debugfs have the same names. C has no credits.
 */

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/percpu_counter.h>
#include <linux/seq_file.h>
#include <linux/workqueue.h>

#include "twins.h"

/* As there. */
#define TASKS		4
#define TASK_REQUESTS	5000

struct limit_case {
	const char *name;
	s64 limit;
	s64 used;
	s64 size;
};

static const struct limit_case limit_cases[] = {
	{ "far", 1 << 30, 0, 1 },
	{ "near", 1 << 20, (1 << 20) - TASKS, 1 },
	{ "near_32", 1 << 20, (1 << 20) - 32 * TASKS, 32 },
	{ "full", 1 << 20, 1 << 20, 1 },
};

struct limiter {
	struct percpu_counter counter;
	s64 limit;
};

static __always_inline bool take_exact(struct limiter *l, s64 count)
{
	if (percpu_counter_compare(&l->counter, l->limit) >= 0)
		return false;
	percpu_counter_add(&l->counter, count);
	return true;
}

static __always_inline bool take_approx(struct limiter *l, s64 count)
{
	if (percpu_counter_read_positive(&l->counter) >= l->limit)
		return false;
	percpu_counter_add(&l->counter, count);
	return true;
}

#define DEFINE_MODE(mode)						\
static __always_inline void request_##mode(struct limiter *l, s64 size)	\
{									\
	if (black_box(take_##mode(l, size)))				\
		percpu_counter_sub(&l->counter, size);			\
}									\
									\
static noinline s64 measure_##mode(struct limiter *limiter, s64 size)	\
{									\
	unsigned long requests = black_box(CALLS);			\
	ktime_t begin = ktime_get();					\
									\
	for (unsigned long i = 0; i < requests; i++)			\
		request_##mode(black_box(limiter), size);		\
	return ktime_sub(ktime_get(), begin);				\
}									\
									\
static noinline void make_requests_##mode(struct limiter *l, s64 size)	\
{									\
	for (int i = 0; i < TASK_REQUESTS; i++)				\
		request_##mode(l, size);				\
}

DEFINE_MODE(exact)
DEFINE_MODE(approx)

static const struct mode {
	const char *name;
	s64 (*measure)(struct limiter *l, s64 size);
	void (*make_requests)(struct limiter *l, s64 size);
} modes[] = {
	{ "exact", measure_exact, make_requests_exact },
	{ "approx", measure_approx, make_requests_approx },
};

/* A file: the mode and the case that it measures. */
struct measurement {
	const struct mode *mode;
	const struct limit_case *limit_case;
};

static struct measurement files[ARRAY_SIZE(modes)][ARRAY_SIZE(limit_cases)];

static int prepare(struct limiter *l, const struct measurement *file)
{
	int err = percpu_counter_init(&l->counter, 0, GFP_KERNEL);

	if (err)
		return err;
	l->limit = file->limit_case->limit;
	percpu_counter_add(&l->counter, file->limit_case->used);
	/* Warms up the mode. */
	file->mode->measure(l, file->limit_case->size);
	return 0;
}

static int cost_show(struct seq_file *m, void *v)
{
	const struct measurement *file = m->private;
	struct limiter l;
	int err = prepare(&l, file);

	if (err)
		return err;
	for (int i = 0; i < ROUNDS; i++)
		seq_printf(m, "%lld %lu\n",
			   file->mode->measure(&l, file->limit_case->size), CALLS);
	percpu_counter_destroy(&l.counter);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cost);

struct task {
	struct work_struct work;
	struct completion *start;
	struct limiter *l;
	const struct measurement *file;
};

static void task_fn(struct work_struct *work)
{
	struct task *task = container_of(work, struct task, work);

	wait_for_completion(task->start);
	task->file->mode->make_requests(task->l, task->file->limit_case->size);
}

static int tasks_show(struct seq_file *m, void *v)
{
	DECLARE_COMPLETION_ONSTACK(start);
	const struct measurement *file = m->private;
	struct task tasks[TASKS];
	struct limiter l;
	ktime_t begin;
	int err = prepare(&l, file);

	if (err)
		return err;
	for (int i = 0; i < TASKS; i++) {
		tasks[i] = (struct task){ .start = &start, .l = &l, .file = file };
		INIT_WORK_ONSTACK(&tasks[i].work, task_fn);
		queue_work(system_dfl_wq, &tasks[i].work);
	}
	begin = ktime_get();
	complete_all(&start);
	for (int i = 0; i < TASKS; i++) {
		flush_work(&tasks[i].work);
		destroy_work_on_stack(&tasks[i].work);
	}
	seq_printf(m, "%lld %d\n", ktime_sub(ktime_get(), begin), TASKS * TASK_REQUESTS);
	percpu_counter_destroy(&l.counter);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tasks);

static struct dentry *dir;

static int __init limiter_init(void)
{
	dir = debugfs_create_dir("bench_limiter_c", NULL);
	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		struct dentry *mode = debugfs_create_dir(modes[i].name, dir);

		for (int j = 0; j < ARRAY_SIZE(limit_cases); j++) {
			struct measurement *file = &files[i][j];
			char name[32];

			*file = (struct measurement){ &modes[i], &limit_cases[j] };
			snprintf(name, sizeof(name), "cost-%s", limit_cases[j].name);
			debugfs_create_file(name, 0400, mode, file, &cost_fops);
			snprintf(name, sizeof(name), "tasks-%s", limit_cases[j].name);
			debugfs_create_file(name, 0400, mode, file, &tasks_fops);
		}
	}
	return 0;
}
module_init(limiter_init);

static void limiter_exit(void)
{
	debugfs_remove(dir);
}
module_exit(limiter_exit);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Cost of a limit, in C");
MODULE_LICENSE("GPL");
