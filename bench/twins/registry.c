// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of the benchmark `shrinker-srcu`: the three registries of samples/srcu_registry under
 * the same load. The files in bench_registry_c/ of debugfs have the same names and formats.
 *
 * `rwsem` is shrink_slab() before the series "make slab shrink lockless", `srcu` is that of the
 * series, and `refcount` is that of mm/shrinker.c in 7.3.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/rculist.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include "registry.h"

struct item {
	struct list_head list;
	struct percpu_counter calls;
	unsigned int sleep_ms;
	atomic_t is_asleep;
	bool is_gone;
	/* For `refcount`: one reference of the list, and one of each walk at the item. */
	refcount_t refcount;
	struct completion done;
	struct rcu_head rcu;
};

static atomic64_t late;

static void call_item(struct item *item)
{
	percpu_counter_add_batch(&item->calls, 1, U16_MAX);
	if (item->sleep_ms && !atomic_xchg_acquire(&item->is_asleep, 1)) {
		fsleep(item->sleep_ms * 1000);
		atomic_set_release(&item->is_asleep, 0);
	}
	if (smp_load_acquire(&item->is_gone))
		atomic64_inc(&late);
}

static struct item *new_item(unsigned int sleep_ms)
{
	struct item *item = kzalloc(sizeof(*item), GFP_KERNEL);

	if (!item)
		return NULL;
	if (percpu_counter_init(&item->calls, 0, GFP_KERNEL)) {
		kfree(item);
		return NULL;
	}
	item->sleep_ms = sleep_ms;
	init_completion(&item->done);
	refcount_set(&item->refcount, 1);
	return item;
}

static LIST_HEAD(rwsem_list);
static DECLARE_RWSEM(rwsem);

static void rwsem_register(struct item *item)
{
	down_write(&rwsem);
	list_add(&item->list, &rwsem_list);
	up_write(&rwsem);
}

static void rwsem_unregister(struct item *item)
{
	down_write(&rwsem);
	list_del(&item->list);
	up_write(&rwsem);
}

static enum walk rwsem_walk(void)
{
	enum walk walk = WALK_COMPLETE;
	struct item *item;

	if (!down_read_trylock(&rwsem))
		return WALK_SKIPPED;
	list_for_each_entry(item, &rwsem_list, list) {
		call_item(item);
		if (rwsem_is_contended(&rwsem)) {
			walk = WALK_CUT_SHORT;
			break;
		}
	}
	up_read(&rwsem);
	return walk;
}

static LIST_HEAD(srcu_list);
static DEFINE_MUTEX(srcu_mutex);
static struct srcu_struct srcu;
static atomic_t srcu_generation;

static void srcu_register(struct item *item)
{
	mutex_lock(&srcu_mutex);
	list_add_rcu(&item->list, &srcu_list);
	mutex_unlock(&srcu_mutex);
}

static void srcu_unregister(struct item *item)
{
	mutex_lock(&srcu_mutex);
	list_del_rcu(&item->list);
	mutex_unlock(&srcu_mutex);
	atomic_inc(&srcu_generation);
	synchronize_srcu(&srcu);
}

static enum walk srcu_walk(void)
{
	enum walk walk = WALK_COMPLETE;
	struct item *item;
	int idx = srcu_read_lock(&srcu);
	int generation = atomic_read(&srcu_generation);

	list_for_each_entry_srcu(item, &srcu_list, list, srcu_read_lock_held(&srcu)) {
		call_item(item);
		if (atomic_read(&srcu_generation) != generation) {
			walk = WALK_CUT_SHORT;
			break;
		}
	}
	srcu_read_unlock(&srcu, idx);
	return walk;
}

static LIST_HEAD(refcount_list);
static DEFINE_MUTEX(refcount_mutex);

static void put_item(struct item *item)
{
	if (refcount_dec_and_test(&item->refcount))
		complete(&item->done);
}

static void refcount_register(struct item *item)
{
	mutex_lock(&refcount_mutex);
	list_add_rcu(&item->list, &refcount_list);
	mutex_unlock(&refcount_mutex);
}

static void refcount_unregister(struct item *item)
{
	put_item(item);
	wait_for_completion(&item->done);
	mutex_lock(&refcount_mutex);
	list_del_rcu(&item->list);
	mutex_unlock(&refcount_mutex);
}

static enum walk refcount_walk(void)
{
	struct item *item;

	rcu_read_lock();
	list_for_each_entry_rcu(item, &refcount_list, list) {
		if (!refcount_inc_not_zero(&item->refcount))
			continue;
		rcu_read_unlock();
		call_item(item);
		rcu_read_lock();
		put_item(item);
	}
	rcu_read_unlock();
	return WALK_COMPLETE;
}

const struct way ways[WAYS] = {
	{ "rwsem", rwsem_register, rwsem_unregister, rwsem_walk },
	{ "srcu", srcu_register, srcu_unregister, srcu_walk },
	{ "refcount", refcount_register, refcount_unregister, refcount_walk },
};

/* A task that walks until it must stop. */
struct reader {
	struct work_struct work;
	const struct way *way;
	const bool *stop;
	u64 walks[WALKS];
};

/* Schedules another task if needed, see give_way() in samples/srcu_registry/tasks.rs. */
static void give_way(void)
{
	cond_resched();
	preempt_disable();
	preempt_enable();
}

static void reader_fn(struct work_struct *work)
{
	struct reader *reader = container_of(work, struct reader, work);

	while (!READ_ONCE(*reader->stop)) {
		reader->walks[reader->way->walk()]++;
		give_way();
	}
}

/* Frees an item that is on no list. */
static void free_item(struct item *item)
{
	smp_store_release(&item->is_gone, true);
	percpu_counter_destroy(&item->calls);
	kfree_rcu(item, rcu);
}

static int write(const struct way *way, struct load *load, ktime_t begin)
{
	while (ktime_ms_delta(ktime_get(), begin) < load->ms) {
		struct item *item = new_item(0);
		ktime_t before;

		if (!item)
			return -ENOMEM;
		way->register_item(item);
		if (load->pause_us)
			fsleep(load->pause_us);
		before = ktime_get();
		way->unregister_item(item);
		count_latency(load, ktime_to_ns(ktime_sub(ktime_get(), before)));
		free_item(item);
		give_way();
	}
	return 0;
}

static int run_tasks(const struct way *way, struct load *load)
{
	struct workqueue_struct *queue;
	struct reader *readers;
	bool stop = false;
	ktime_t begin;
	int err = -ENOMEM;

	readers = kcalloc(load->readers + 1, sizeof(*readers), GFP_KERNEL);
	queue = alloc_workqueue("bench_registry_c", WQ_UNBOUND, load->readers);
	if (!readers || !queue)
		goto out;
	begin = ktime_get();
	for (unsigned int i = 0; i < load->readers; i++) {
		INIT_WORK(&readers[i].work, reader_fn);
		readers[i].way = way;
		readers[i].stop = &stop;
		queue_work(queue, &readers[i].work);
	}
	err = write(way, load, begin);
	load->elapsed_ms = ktime_ms_delta(ktime_get(), begin);
	WRITE_ONCE(stop, true);
	flush_workqueue(queue);
	for (unsigned int i = 0; i < load->readers; i++)
		for (int walk = 0; walk < WALKS; walk++)
			load->walks[walk] += readers[i].walks[walk];
out:
	if (queue)
		destroy_workqueue(queue);
	kfree(readers);
	return err;
}

int run_load(const struct way *way, struct load *load)
{
	unsigned int count = load->items + !!load->sleep_ms, made;
	struct item **items = kcalloc(count + 1, sizeof(*items), GFP_KERNEL);
	int err = items ? 0 : -ENOMEM;

	for (made = 0; !err && made < count; made++) {
		/* The first item of the load, which walks reach last. */
		items[made] = new_item(made ? 0 : load->sleep_ms);
		if (!items[made]) {
			err = -ENOMEM;
			break;
		}
		way->register_item(items[made]);
	}
	err = err ?: run_tasks(way, load);
	while (items && made--) {
		way->unregister_item(items[made]);
		free_item(items[made]);
	}
	kfree(items);
	return err;
}

s64 late_calls(void)
{
	return atomic64_read(&late);
}

int init_ways(void)
{
	return init_srcu_struct(&srcu);
}

void exit_ways(void)
{
	/* All items are freed here. */
	rcu_barrier();
	cleanup_srcu_struct(&srcu);
}
