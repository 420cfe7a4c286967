// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/memory.rs. */

#include <linux/gfp.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "twins.h"

/* As there. */
#define BULK	32

struct value {
	u64 words[16];
};

static struct bench {
	struct kmem_cache *cache;
	mempool_t kmalloc;
	mempool_t slab;
	mempool_t pages;
} bench;

static __always_inline void noio_scope(void)
{
	unsigned int flags = memalloc_noio_save();

	barrier();
	memalloc_noio_restore(flags);
}

static __always_inline void alloc_and_free_pages(unsigned int order, gfp_t gfp)
{
	struct page *page = alloc_pages(gfp, order);

	if (page)
		__free_pages(page, order);
}

static __always_inline void free_bulk(struct page **pages, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (pages[i])
			__free_page(pages[i]);
}

static __always_inline void alloc_and_free_bulk(void)
{
	struct page *pages[BULK] = {};
	unsigned long populated = 0, now;

	barrier_data(pages);
	/* Allocates one page at a time if memory is low. */
	while ((now = alloc_pages_bulk(GFP_NOIO, BULK, pages)) > populated && now < BULK)
		populated = now;
	free_bulk(pages, BULK);
}

static __always_inline void cache_alloc_and_free(struct kmem_cache *cache)
{
	void *memory = kmem_cache_alloc(cache, GFP_NOIO);

	if (memory)
		kmem_cache_free(cache, memory);
}

static __always_inline void pool_alloc_and_free(mempool_t *pool)
{
	void *element = mempool_alloc(pool, GFP_NOIO);

	if (element)
		mempool_free(element, pool);
}

static __always_inline void pool_alloc_preallocated_and_free(mempool_t *pool)
{
	void *element = mempool_alloc_preallocated(pool);

	if (element)
		mempool_free(element, pool);
}

/* Allocates a part of a bulk. The pool provides the rest. */
#define GFP_FIRST_PASS	(GFP_NOWAIT | __GFP_NORETRY | __GFP_NOMEMALLOC)

static __always_inline void pool_bulk_kmalloc(mempool_t *pool)
{
	void *elements[BULK] __uninitialized;
	unsigned int flags, count;

	barrier_data(elements);
	flags = memalloc_noio_save();
	mempool_alloc_bulk(pool, elements, BULK);
	memalloc_noio_restore(flags);

	count = mempool_free_bulk(pool, elements, BULK);
	while (count < BULK)
		kfree(elements[count++]);
}

static __always_inline void pool_bulk_slab(mempool_t *pool, struct kmem_cache *cache)
{
	void *elements[BULK] __uninitialized;
	unsigned int flags, count;

	barrier_data(elements);
	flags = memalloc_noio_save();
	if (!kmem_cache_alloc_bulk(cache, GFP_FIRST_PASS, BULK, elements))
		mempool_alloc_bulk(pool, elements, BULK);
	memalloc_noio_restore(flags);

	count = mempool_free_bulk(pool, elements, BULK);
	if (count < BULK)
		kmem_cache_free_bulk(cache, BULK - count, elements + count);
}

static __always_inline void pool_bulk_pages(mempool_t *pool)
{
	struct page *pages[BULK] __uninitialized;
	unsigned int flags, count;

	barrier_data(pages);
	memset(pages, 0, sizeof(pages));
	flags = memalloc_noio_save();
	count = alloc_pages_bulk(GFP_FIRST_PASS, BULK, pages);
	if (count < BULK)
		mempool_alloc_bulk(pool, (void **)pages + count, BULK - count);
	memalloc_noio_restore(flags);

	count = mempool_free_bulk(pool, (void **)pages, BULK);
	while (count < BULK)
		__free_page(pages[count++]);
}

#define CASES(CASE)							\
	CASE(empty, )							\
	CASE(noio_scope, noio_scope())					\
	CASE(totalram_pages, black_box(totalram_pages()))		\
	CASE(alloc_page, alloc_and_free_pages(0, GFP_NOIO))		\
	CASE(alloc_pages_order_2,					\
	     alloc_and_free_pages(2, GFP_NOIO | __GFP_COMP))		\
	CASE(alloc_pages_bulk, alloc_and_free_bulk())			\
	CASE(kmem_cache_alloc, cache_alloc_and_free(b->cache))		\
	CASE(mempool_alloc_kmalloc, pool_alloc_and_free(&b->kmalloc))	\
	CASE(mempool_alloc_slab, pool_alloc_and_free(&b->slab))		\
	CASE(mempool_alloc_pages, pool_alloc_and_free(&b->pages))	\
	CASE(mempool_alloc_preallocated,				\
	     pool_alloc_preallocated_and_free(&b->pages))		\
	CASE(mempool_alloc_bulk_kmalloc, pool_bulk_kmalloc(&b->kmalloc))\
	CASE(mempool_alloc_bulk_slab, pool_bulk_slab(&b->slab, b->cache))\
	CASE(mempool_alloc_bulk_pages, pool_bulk_pages(&b->pages))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	bench.cache = kmem_cache_create("bench_twins", sizeof(struct value),
					__alignof__(struct value), 0, NULL);
	if (!bench.cache)
		return -ENOMEM;
	return mempool_init_kmalloc_pool(&bench.kmalloc, BULK, sizeof(struct value)) ?:
	       mempool_init_slab_pool(&bench.slab, BULK, bench.cache) ?:
	       mempool_init_page_pool(&bench.pages, BULK, 0);
}

static void exit(void)
{
	mempool_exit(&bench.pages);
	mempool_exit(&bench.slab);
	mempool_exit(&bench.kmalloc);
	kmem_cache_destroy(bench.cache);
}

const struct twins memory_twins = { init, exit, add_cases };
