// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/lists.rs. */

#include <linux/completion.h>
#include <linux/rculist.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#include "twins.h"

/* As there. */
#define LEN	8

struct srcu_item {
	struct list_head links;
	u64 value;
};

/* As struct shrinker: the removal waits for `done`, which the last reference completes. */
struct rcu_item {
	struct list_head links;
	refcount_t count;
	struct completion done;
	u64 value;
};

static struct bench {
	struct srcu_struct *srcu;
	struct list_head srcu_list;
	struct list_head rcu_list;
	struct rw_semaphore rwsem;
	u64 value;
	struct srcu_item srcu_items[LEN];
	struct rcu_item rcu_items[LEN];
} bench;

static __always_inline void walk_srcu(struct bench *b)
{
	struct srcu_struct *srcu = b->srcu;
	struct srcu_ctr __percpu *ctr = srcu_read_lock_fast(srcu);
	struct srcu_item *item;

	list_for_each_entry_srcu(item, &b->srcu_list, links, true)
		black_box(item->value);
	srcu_read_unlock_fast(srcu, ctr);
}

static __always_inline bool try_get(struct rcu_item *item)
{
	return refcount_inc_not_zero(&item->count);
}

static __always_inline void put(struct rcu_item *item)
{
	if (refcount_dec_and_test(&item->count))
		complete(&item->done);
}

/* As shrink_slab() in mm/shrinker.c. */
static __always_inline void walk_rcu(struct bench *b)
{
	struct rcu_item *item;

	rcu_read_lock();
	list_for_each_entry_rcu(item, &b->rcu_list, links) {
		if (!try_get(item))
			continue;
		rcu_read_unlock();
		black_box(item->value);
		rcu_read_lock();
		put(item);
	}
	rcu_read_unlock();
}

static __always_inline u64 read(struct bench *b)
{
	u64 value;

	down_read(&b->rwsem);
	value = b->value;
	up_read(&b->rwsem);
	return value;
}

static __always_inline u64 try_read(struct bench *b)
{
	u64 value;

	if (!down_read_trylock(&b->rwsem))
		return 0;
	value = b->value;
	up_read(&b->rwsem);
	return value;
}

static __always_inline u64 write(struct bench *b)
{
	u64 value;

	down_write(&b->rwsem);
	value = b->value;
	up_write(&b->rwsem);
	return value;
}

#define CASES(CASE)							\
	CASE(srcu_list_walk_8, walk_srcu(b))				\
	CASE(srcu_list_walk_8_guard, walk_srcu(b))			\
	CASE(rcu_list_for_each_8, walk_rcu(b))				\
	CASE(rcu_list_walk_8, walk_rcu(b))				\
	CASE(down_read, black_box(read(b)))				\
	CASE(down_read_trylock, black_box(try_read(b)))			\
	CASE(down_write, black_box(write(b)))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	init_rwsem(&bench.rwsem);
	INIT_LIST_HEAD(&bench.srcu_list);
	INIT_LIST_HEAD(&bench.rcu_list);
	for (int i = 0; i < LEN; i++) {
		list_add_rcu(&bench.srcu_items[i].links, &bench.srcu_list);
		refcount_set(&bench.rcu_items[i].count, 1);
		init_completion(&bench.rcu_items[i].done);
		list_add_rcu(&bench.rcu_items[i].links, &bench.rcu_list);
	}

	bench.srcu = kzalloc(sizeof(*bench.srcu), GFP_KERNEL);
	if (bench.srcu && init_srcu_struct_fast(bench.srcu)) {
		kfree(bench.srcu);
		bench.srcu = NULL;
	}
	return bench.srcu ? 0 : -ENOMEM;
}

static void exit(void)
{
	if (!bench.srcu)
		return;
	cleanup_srcu_struct(bench.srcu);
	kfree(bench.srcu);
}

const struct twins lists_twins = { init, exit, add_cases };
