// SPDX-License-Identifier: GPL-2.0
/*
 * What a call of C costs: the C half of the benchmark `wrappers`.
 *
 * Does what wrappers.rs does, case by case and under the same names, by the C that a user of the
 * same functions would write.
 */

#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu_counter.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

/* As in wrappers.rs. */
#define CALLS	256
#define ROUNDS	5
#define BULK	32
#define BATCH	64
#define FAR	(1LL << 40)

/* Rust's core::hint::black_box(): the value is in memory, and who knows what reads it. */
#define black_box(x) do {						\
	typeof(x) __x = (x);						\
									\
	asm volatile("" : : "r" (&__x) : "memory");			\
} while (0)

struct bench {
	struct percpu_counter counter;
	struct percpu_counter still;
	mempool_t pages;
};

static struct bench bench;

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

/* The name of each case and what it does. */
#define CASES(CASE)							\
	CASE(empty, )							\
	CASE(percpu_counter_add, percpu_counter_add(&b->counter, 1))	\
	CASE(percpu_counter_sub, percpu_counter_sub(&b->counter, 1))	\
	CASE(percpu_counter_add_batch,					\
	     percpu_counter_add_batch(&b->counter, 1, BATCH))		\
	CASE(percpu_counter_read,					\
	     black_box(percpu_counter_read(&b->counter)))		\
	CASE(percpu_counter_read_positive,				\
	     black_box(percpu_counter_read_positive(&b->counter)))	\
	CASE(percpu_counter_sum,					\
	     black_box(percpu_counter_sum(&b->counter)))		\
	CASE(percpu_counter_sum_positive,				\
	     black_box(percpu_counter_sum_positive(&b->counter)))	\
	CASE(percpu_counter_compare_far,				\
	     black_box(percpu_counter_compare(&b->still, FAR) >= 0))	\
	CASE(percpu_counter_compare_near,				\
	     black_box(percpu_counter_compare(&b->still, 1) >= 0))	\
	CASE(percpu_counter_sync, percpu_counter_sync(&b->counter))	\
	CASE(noio_scope, noio_scope())					\
	CASE(totalram_pages, black_box(totalram_pages()))		\
	CASE(alloc_page, alloc_and_free_pages(0, GFP_NOIO))		\
	CASE(alloc_pages_order_2,					\
	     alloc_and_free_pages(2, GFP_NOIO | __GFP_COMP))		\
	CASE(alloc_pages_bulk, alloc_and_free_bulk())			\
	CASE(mempool_alloc, pool_alloc_and_free(&b->pages))		\
	CASE(mempool_alloc_bulk, pool_alloc_and_free_bulk(&b->pages))

/* A loop as that of measure() in wrappers.rs. */
#define DEFINE_CASE(name, ...)						\
static noinline s64 measure_##name(struct bench *b)			\
{									\
	unsigned long calls = CALLS;					\
	ktime_t begin;							\
									\
	OPTIMIZER_HIDE_VAR(calls);					\
	begin = ktime_get();						\
	for (unsigned long i = 0; i < calls; i++) {			\
		__VA_ARGS__;						\
		barrier();						\
	}								\
	return ktime_sub(ktime_get(), begin);				\
}									\
									\
static int name##_show(struct seq_file *m, void *v)			\
{									\
	for (int i = 0; i < ROUNDS; i++)				\
		seq_printf(m, "%lld %d\n", measure_##name(m->private), CALLS);\
	return 0;							\
}									\
DEFINE_SHOW_ATTRIBUTE(name);

CASES(DEFINE_CASE)

/* 1000 instructions for each call, to tell whether the clock counts them. */
static noinline s64 measure_clock(void)
{
	unsigned long n = 500 * CALLS;
	ktime_t begin = ktime_get();

	asm volatile("1: dec %0; jnz 1b" : "+r" (n) : : "cc");
	return ktime_sub(ktime_get(), begin);
}

static int clock_show(struct seq_file *m, void *v)
{
	for (int i = 0; i < ROUNDS; i++)
		seq_printf(m, "%lld %d\n", measure_clock(), CALLS);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clock);

static struct dentry *dir;

static void destroy_bench(void)
{
	mempool_exit(&bench.pages);
	percpu_counter_destroy(&bench.still);
	percpu_counter_destroy(&bench.counter);
}

static int __init twins_init(void)
{
	int err;

	/* What was not initialised is all zeros, which the functions above take. */
	err = percpu_counter_init(&bench.counter, 0, GFP_KERNEL) ?:
	      percpu_counter_init(&bench.still, 0, GFP_KERNEL) ?:
	      mempool_init_page_pool(&bench.pages, BULK, 0);
	if (err) {
		destroy_bench();
		return err;
	}

	dir = debugfs_create_dir("bench_wrappers_c", NULL);
#define CREATE_FILE(name, ...) debugfs_create_file(#name, 0400, dir, &bench, &name##_fops);
	CASES(CREATE_FILE)
	debugfs_create_file("clock", 0400, dir, NULL, &clock_fops);
	return 0;
}
module_init(twins_init);

static void __exit twins_exit(void)
{
	debugfs_remove(dir);
	destroy_bench();
}
module_exit(twins_exit);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("What a call of C costs");
MODULE_LICENSE("GPL");
