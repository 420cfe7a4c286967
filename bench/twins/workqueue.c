// SPDX-License-Identifier: GPL-2.0
/* The twin of bench/wrappers/workqueue.rs. */

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "twins.h"

/* As there. */
#define ITEMS	32

struct round {
	atomic64_t left;
	struct completion done;
};

struct item {
	struct kref ref;
	struct work_struct work;
	struct round *round;
};

static struct bench {
	struct workqueue_struct *queue;
} bench;

static void free_item(struct kref *ref)
{
	kfree(container_of(ref, struct item, ref));
}

static void run(struct work_struct *work)
{
	struct item *item = container_of(work, struct item, work);

	if (atomic64_fetch_dec_relaxed(&item->round->left) == 1)
		complete_all(&item->round->done);
	kref_put(&item->ref, free_item);
}

/* Measures the time until all items have run. */
static s64 measure_round(struct item **items, struct round *round)
{
	ktime_t begin = ktime_get();

	for (int i = 0; i < ITEMS; i++) {
		kref_get(&items[i]->ref);
		black_box(queue_work(bench.queue, &items[i]->work));
	}
	wait_for_completion(&round->done);
	return ktime_sub(ktime_get(), begin);
}

static int queue_work_32_show(struct seq_file *m, void *v)
{
	struct item *items[ITEMS] = {};
	struct round *round = kmalloc(sizeof(*round), GFP_KERNEL);
	int err = round ? 0 : -ENOMEM;

	for (int i = 0; !err && i < ITEMS; i++) {
		items[i] = kzalloc(sizeof(*items[i]), GFP_KERNEL);
		if (!items[i])
			err = -ENOMEM;
	}
	for (int i = 0; !err && i < ROUNDS; i++) {
		atomic64_set(&round->left, ITEMS);
		init_completion(&round->done);
		for (int j = 0; j < ITEMS; j++) {
			kref_init(&items[j]->ref);
			INIT_WORK(&items[j]->work, run);
			items[j]->round = round;
		}
		seq_printf(m, "%lld 1\n", measure_round(items, round));
		flush_workqueue(bench.queue);
	}
	for (int i = 0; i < ITEMS; i++)
		kfree(items[i]);
	kfree(round);
	return err;
}
DEFINE_SHOW_ATTRIBUTE(queue_work_32);

static void add_cases(struct dentry *dir)
{
	CREATE_FILE(queue_work_32)
}

static int init(void)
{
	bench.queue = alloc_workqueue("bench_c", WQ_MEM_RECLAIM | WQ_PERCPU, 0);
	return bench.queue ? 0 : -ENOMEM;
}

static void exit(void)
{
	if (bench.queue)
		destroy_workqueue(bench.queue);
}

const struct twins workqueue_twins = { init, exit, add_cases };
