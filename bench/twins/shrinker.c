// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/shrinker.rs. */

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/list_lru.h>
#include <linux/refcount.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>

#include "twins.h"

/* As there. */
#define SCANNED	32

/* Reference counted, as items on lists that other code finds must be. */
struct object {
	struct list_head links;
	refcount_t refs;
	u64 words[16];
};

struct cache {
	struct shrinker *shrinker;
	struct list_lru lru;
	struct kmem_cache *objects;
};

static struct bench {
	struct shrinker *number;
	atomic_long_t objects;
	struct cache used;
	struct cache unused;
	struct shrinker *pages;
	spinlock_t lock;
	unsigned long nr_free;
	struct page **free;
} bench;

static unsigned long number_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct bench *b = shrinker->private_data;

	return atomic_long_read(&b->objects) ?: SHRINK_EMPTY;
}

static unsigned long number_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	return sc->nr_to_scan;
}

static unsigned long lru_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct cache *cache = shrinker->private_data;

	return list_lru_shrink_count(&cache->lru, sc) ?: SHRINK_EMPTY;
}

static enum lru_status rotate(struct list_head *item, struct list_lru_one *list, void *arg)
{
	return LRU_ROTATE;
}

static unsigned long used_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct cache *cache = shrinker->private_data;

	return list_lru_shrink_walk(&cache->lru, sc, rotate, NULL);
}

static void put_object(struct cache *cache, struct object *object)
{
	if (refcount_dec_and_test(&object->refs))
		kmem_cache_free(cache->objects, object);
}

static enum lru_status isolate(struct list_head *item, struct list_lru_one *list, void *dispose)
{
	list_lru_isolate_move(list, item, dispose);
	return LRU_REMOVED;
}

static unsigned long unused_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct cache *cache = shrinker->private_data;
	struct object *object, *next;
	unsigned long freed;
	LIST_HEAD(dispose);

	freed = list_lru_shrink_walk(&cache->lru, sc, isolate, &dispose);
	list_for_each_entry_safe(object, next, &dispose, links) {
		list_del_init(&object->links);
		put_object(cache, object);
	}
	return freed;
}

static void fill(struct cache *cache, unsigned long count)
{
	while (count--) {
		struct object *object = kmem_cache_alloc_lru(cache->objects, &cache->lru,
							     GFP_KERNEL_ACCOUNT);

		if (!object)
			continue;
		INIT_LIST_HEAD(&object->links);
		refcount_set(&object->refs, 1);
		memset(object->words, 0, sizeof(object->words));
		/* The list holds a reference. */
		refcount_inc(&object->refs);
		if (!list_lru_add_obj(&cache->lru, &object->links))
			put_object(cache, object);
		put_object(cache, object);
	}
}

/* As Registration::call_back(): do_shrink_slab() in mm/shrinker.c without its calculations. */
static __always_inline unsigned long call_back(struct shrinker *shrinker)
{
	struct shrink_control sc = { .gfp_mask = GFP_KERNEL, .nid = numa_node_id() };
	unsigned int flags = memalloc_noreclaim_save();
	unsigned long freed = shrinker->count_objects(shrinker, &sc);

	if (freed && freed != SHRINK_EMPTY) {
		sc.nr_to_scan = SCANNED;
		sc.nr_scanned = SCANNED;
		freed = shrinker->scan_objects(shrinker, &sc);
	}
	memalloc_noreclaim_restore(flags);
	return freed;
}

static unsigned long pages_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct bench *b = shrinker->private_data;
	unsigned long count;

	spin_lock(&b->lock);
	count = b->nr_free;
	spin_unlock(&b->lock);
	return count ?: SHRINK_EMPTY;
}

static unsigned long pages_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct bench *b = shrinker->private_data;
	unsigned long freed = 0;

	while (freed < sc->nr_to_scan) {
		struct page *page = NULL;

		spin_lock(&b->lock);
		if (b->nr_free)
			page = b->free[--b->nr_free];
		spin_unlock(&b->lock);
		if (!page)
			break;
		__free_page(page);
		freed++;
	}
	return freed;
}

static void fill_pages(struct bench *b, unsigned long count)
{
	while (count--) {
		struct page *page = alloc_page(GFP_KERNEL);

		if (!page)
			continue;
		spin_lock(&b->lock);
		if (b->nr_free < CALLS * SCANNED) {
			b->free[b->nr_free++] = page;
			page = NULL;
		}
		spin_unlock(&b->lock);
		if (page)
			__free_page(page);
	}
}

#define CASES(CASE)							\
	CASE(shrinker_number, black_box(call_back(b->number)))		\
	CASE(shrinker_rotate_32, black_box(call_back(b->used.shrinker)))

CASES(DEFINE_CASE)

/* The loop of DEFINE_CASE. */
static noinline s64 measure_call_back(struct shrinker *shrinker)
{
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();

	for (unsigned long i = 0; i < calls; i++) {
		black_box(call_back(black_box(shrinker)));
		barrier();
	}
	return ktime_sub(ktime_get(), begin);
}

/* Calls that free the objects of the setup. */
static int shrinker_free_32_show(struct seq_file *m, void *v)
{
	for (int i = 0; i < ROUNDS; i++) {
		fill(&bench.unused, CALLS * SCANNED);
		seq_printf(m, "%lld %lu\n", measure_call_back(bench.unused.shrinker), CALLS);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(shrinker_free_32);

static int shrinker_free_pages_32_show(struct seq_file *m, void *v)
{
	for (int i = 0; i < ROUNDS; i++) {
		fill_pages(&bench, CALLS * SCANNED);
		seq_printf(m, "%lld %lu\n", measure_call_back(bench.pages), CALLS);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(shrinker_free_pages_32);

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
	CREATE_FILE(shrinker_free_32)
	CREATE_FILE(shrinker_free_pages_32)
}

static struct shrinker *alloc(void)
{
	return shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE, "bench_c");
}

static void put_all(struct cache *cache)
{
	struct object *object, *next;
	LIST_HEAD(dispose);

	list_lru_walk(&cache->lru, isolate, &dispose, ULONG_MAX);
	list_for_each_entry_safe(object, next, &dispose, links)
		put_object(cache, object);
}

static int init_cache(struct cache *cache, const char *name,
		      unsigned long (*scan)(struct shrinker *, struct shrink_control *))
{
	cache->shrinker = alloc();
	if (!cache->shrinker || list_lru_init_memcg(&cache->lru, cache->shrinker))
		return -ENOMEM;
	cache->objects = kmem_cache_create(name, sizeof(struct object), 0, SLAB_RECLAIM_ACCOUNT,
					   NULL);
	if (!cache->objects)
		return -ENOMEM;
	fill(cache, SCANNED);
	cache->shrinker->private_data = cache;
	cache->shrinker->count_objects = lru_count;
	cache->shrinker->scan_objects = scan;
	shrinker_register(cache->shrinker);
	return 0;
}

static void exit_cache(struct cache *cache)
{
	shrinker_free(cache->shrinker);
	if (cache->objects)
		put_all(cache);
	list_lru_destroy(&cache->lru);
	kmem_cache_destroy(cache->objects);
}

static int init(void)
{
	int err;

	atomic_long_set(&bench.objects, 1000);
	bench.number = alloc();
	if (!bench.number)
		return -ENOMEM;
	bench.number->private_data = &bench;
	bench.number->count_objects = number_count;
	bench.number->scan_objects = number_scan;
	shrinker_register(bench.number);

	spin_lock_init(&bench.lock);
	bench.free = kvmalloc_array(CALLS * SCANNED, sizeof(*bench.free), GFP_KERNEL);
	bench.pages = alloc();
	if (!bench.free || !bench.pages)
		return -ENOMEM;
	bench.pages->private_data = &bench;
	bench.pages->count_objects = pages_count;
	bench.pages->scan_objects = pages_scan;
	shrinker_register(bench.pages);

	err = init_cache(&bench.used, "bench_c_used", used_scan);
	return err ?: init_cache(&bench.unused, "bench_c_unused", unused_scan);
}

static void exit(void)
{
	shrinker_free(bench.number);
	shrinker_free(bench.pages);
	while (bench.nr_free)
		__free_page(bench.free[--bench.nr_free]);
	kvfree(bench.free);
	exit_cache(&bench.used);
	exit_cache(&bench.unused);
}

const struct twins shrinker_twins = { init, exit, add_cases };
