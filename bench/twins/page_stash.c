// SPDX-License-Identifier: GPL-2.0
/*
 * The twins of bench/wrappers/page_stash.rs: the page cache of kvfree_rcu() in mm/slab_common.c, a
 * per-CPU list and count with a lock.
 */

#include <linux/gfp.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>

#include "twins.h"

/* As there. */
#define PAGES_PER_CPU	8
#define FEW		4

struct cache {
	raw_spinlock_t lock;
	struct llist_head bkvcache;
	int nr_bkv_objs;
};

static struct bench {
	struct cache __percpu *caches;
	int min_cached_objs;
} bench;

static __always_inline struct cache *this_cpu_lock(struct bench *b, unsigned long *flags)
{
	struct cache *cache;

	local_irq_save(*flags);
	cache = this_cpu_ptr(b->caches);
	raw_spin_lock(&cache->lock);
	return cache;
}

static __always_inline struct llist_node *get_cached(struct cache *cache)
{
	if (!cache->nr_bkv_objs)
		return NULL;
	WRITE_ONCE(cache->nr_bkv_objs, cache->nr_bkv_objs - 1);
	return llist_del_first(&cache->bkvcache);
}

static __always_inline bool put_cached(struct bench *b, struct cache *cache,
				       struct llist_node *page)
{
	if (cache->nr_bkv_objs >= READ_ONCE(b->min_cached_objs))
		return false;
	llist_add(page, &cache->bkvcache);
	WRITE_ONCE(cache->nr_bkv_objs, cache->nr_bkv_objs + 1);
	return true;
}

static __always_inline struct llist_node *get(struct bench *b)
{
	struct llist_node *page;
	unsigned long flags;
	struct cache *cache = this_cpu_lock(b, &flags);

	page = get_cached(cache);
	raw_spin_unlock_irqrestore(&cache->lock, flags);
	return page;
}

static __always_inline void put(struct bench *b, struct llist_node *page)
{
	unsigned long flags;
	struct cache *cache = this_cpu_lock(b, &flags);

	if (put_cached(b, cache, page))
		page = NULL;
	raw_spin_unlock_irqrestore(&cache->lock, flags);
	if (page)
		free_page((unsigned long)page);
}

static __always_inline void get_and_put(struct bench *b)
{
	struct llist_node *page = black_box(get(b));

	if (page)
		put(b, page);
}

static __always_inline void get_and_put_few(struct bench *b)
{
	struct llist_node *pages[FEW];

	for (int i = 0; i < FEW; i++)
		pages[i] = get(b);
	black_box(&pages);
	for (int i = 0; i < FEW; i++)
		if (pages[i])
			put(b, pages[i]);
}

#define CASES(CASE)							\
	CASE(page_stash_get, get_and_put(b))				\
	CASE(page_stash_get_4, get_and_put_few(b))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	int cpu;

	bench.min_cached_objs = PAGES_PER_CPU;
	bench.caches = alloc_percpu(struct cache);
	if (!bench.caches)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct cache *cache = per_cpu_ptr(bench.caches, cpu);

		raw_spin_lock_init(&cache->lock);
		init_llist_head(&cache->bkvcache);
		for (int i = 0; i < PAGES_PER_CPU; i++) {
			struct llist_node *page = (void *)__get_free_page(GFP_KERNEL);

			if (!page)
				return -ENOMEM;
			put_cached(&bench, cache, page);
		}
	}
	return 0;
}

static void exit(void)
{
	int cpu;

	if (!bench.caches)
		return;
	for_each_possible_cpu(cpu) {
		struct cache *cache = per_cpu_ptr(bench.caches, cpu);
		struct llist_node *page;

		while ((page = get_cached(cache)))
			free_page((unsigned long)page);
	}
	free_percpu(bench.caches);
}

const struct twins page_stash_twins = { init, exit, add_cases };
