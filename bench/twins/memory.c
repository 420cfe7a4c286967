// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/memory.rs. */

#include <linux/gfp.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "twins.h"

/* As there. */
#define BULK	32

static struct bench {
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
	/* One page at a time where memory is low. */
	while ((now = alloc_pages_bulk(GFP_NOIO, BULK, pages)) > populated && now < BULK)
		populated = now;
	free_bulk(pages, BULK);
}

static __always_inline void pool_alloc_and_free(mempool_t *pool)
{
	void *page = mempool_alloc(pool, GFP_NOIO);

	if (page)
		mempool_free(page, pool);
}

static __always_inline void pool_alloc_and_free_bulk(mempool_t *pool)
{
	struct page *pages[BULK] = {};
	unsigned int flags, count;

	barrier_data(pages);
	flags = memalloc_noio_save();
	count = alloc_pages_bulk(GFP_NOWAIT | __GFP_NORETRY | __GFP_NOMEMALLOC, BULK, pages);
	if (count < BULK)
		mempool_alloc_bulk(pool, (void **)pages + count, BULK - count);
	memalloc_noio_restore(flags);

	count = mempool_free_bulk(pool, (void **)pages, BULK);
	free_bulk(pages + count, BULK - count);
}

#define CASES(CASE)							\
	CASE(empty, )							\
	CASE(noio_scope, noio_scope())					\
	CASE(totalram_pages, black_box(totalram_pages()))		\
	CASE(alloc_page, alloc_and_free_pages(0, GFP_NOIO))		\
	CASE(alloc_pages_order_2,					\
	     alloc_and_free_pages(2, GFP_NOIO | __GFP_COMP))		\
	CASE(alloc_pages_bulk, alloc_and_free_bulk())			\
	CASE(mempool_alloc, pool_alloc_and_free(&b->pages))		\
	CASE(mempool_alloc_bulk, pool_alloc_and_free_bulk(&b->pages))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	return mempool_init_page_pool(&bench.pages, BULK, 0);
}

static void exit(void)
{
	mempool_exit(&bench.pages);
}

const struct twins memory_twins = { init, exit, add_cases };
