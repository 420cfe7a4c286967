// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of the benchmark `dm-crypt-bulk-alloc`: the single, compound and bulk sources of
 * bench/pages. The files in bench_pages_c/ of debugfs have the same names. Writing 1 to
 * `fragmented` there fragments memory until 0 is written.
 */

#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>

#include "twins.h"

/* As there. */
#define MAX_PAGES	256
#define DRAINED		8192
#define LIMIT		(1LL << 40)
#define GFP_FIRST_PASS	(GFP_NOWAIT | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)

static struct bench {
	struct mutex lock;
	mempool_t pool;
	struct percpu_counter counter;
	struct page *pages[MAX_PAGES];
} bench;

static __always_inline bool has_room(struct bench *b)
{
	return percpu_counter_read_positive(&b->counter) < LIMIT;
}

static noinline int single(struct bench *b, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (!has_room(b))
			return -ENOMEM;
		b->pages[i] = mempool_alloc(&b->pool, GFP_FIRST_PASS);
		if (!b->pages[i])
			return -ENOMEM;
		percpu_counter_add(&b->counter, 1);
	}
	while (count--) {
		mempool_free(b->pages[count], &b->pool);
		percpu_counter_sub(&b->counter, 1);
	}
	return 0;
}

/* As crypt_alloc_buffer() and crypt_free_buffer_pages() in drivers/md/dm-crypt.c. */
static noinline int compound(struct bench *b, unsigned int count)
{
	unsigned int order = MAX_PAGE_ORDER, blocks = 0;

	while (count) {
		struct page *page;

		order = min_t(unsigned int, order, __fls(count));
		while (order > 0) {
			if (has_room(b)) {
				page = alloc_pages(GFP_FIRST_PASS | __GFP_COMP, order);
				if (likely(page))
					goto have_pages;
			}
			order--;
		}
		page = mempool_alloc(&b->pool, GFP_FIRST_PASS);
		if (!page)
			return -ENOMEM;
have_pages:
		percpu_counter_add(&b->counter, 1 << order);
		b->pages[blocks++] = page;
		count -= 1 << order;
	}
	while (blocks--) {
		struct folio *folio = page_folio(b->pages[blocks]);

		percpu_counter_sub(&b->counter, folio_nr_pages(folio));
		if (folio_test_large(folio))
			folio_put(folio);
		else
			mempool_free(&folio->page, &b->pool);
	}
	return 0;
}

/* As blk_crypto_fallback_alloc_enc_bio() in block/blk-crypto-fallback.c. */
static noinline int bulk(struct bench *b, unsigned int count)
{
	unsigned int flags, got, kept;

	if (!has_room(b))
		return -ENOMEM;
	memset(b->pages, 0, count * sizeof(*b->pages));
	flags = memalloc_noio_save();
	got = alloc_pages_bulk(GFP_FIRST_PASS, count, b->pages);
	if (got < count)
		mempool_alloc_bulk(&b->pool, (void **)b->pages + got, count - got);
	memalloc_noio_restore(flags);
	percpu_counter_add(&b->counter, count);

	kept = mempool_free_bulk(&b->pool, (void **)b->pages, count);
	while (kept < count)
		__free_page(b->pages[kept++]);
	percpu_counter_sub(&b->counter, count);
	return 0;
}

/* Pages that are held to set a state of the page allocator. */
struct held {
	struct page **pages;
	unsigned long count;
	unsigned int order;
};

/* Whether to allocate and free a page for each page that is held, see drain() in pages.rs. */
static int hold(struct held *held, unsigned int order, unsigned long most, bool draining)
{
	held->count = 0;
	held->order = order;
	held->pages = vmalloc_array(most, sizeof(*held->pages));
	if (!held->pages)
		return -ENOMEM;
	while (held->count < most) {
		struct page *page = alloc_pages(GFP_FIRST_PASS, order);

		if (!page)
			break;
		held->pages[held->count++] = page;
		page = draining ? alloc_page(GFP_FIRST_PASS) : NULL;
		if (page)
			__free_page(page);
	}
	return 0;
}

static void release(struct held *held)
{
	for (unsigned long i = 0; i < held->count; i++)
		if (held->pages[i])
			__free_pages(held->pages[i], held->order);
	vfree(held->pages);
}

/* Holds every second free page, then the pages that the first pass could not get. */
static int fragment(struct held *pages, struct held *pairs)
{
	int err = hold(pages, 0, totalram_pages(), false);

	for (unsigned long i = 1; !err && i < pages->count; i += 2) {
		__free_page(pages->pages[i]);
		pages->pages[i] = NULL;
	}
	return err ?: hold(pairs, 1, totalram_pages() / 2, false);
}

enum state { WARM, COLD, FRAGMENTED };

struct measurement {
	int (*fill_and_empty)(struct bench *b, unsigned int count);
	unsigned int count;
	enum state state;
};

static int make_rounds(struct seq_file *m, const struct measurement *file)
{
	int err = file->fill_and_empty(&bench, file->count);

	for (int i = 0; !err && i < ROUNDS; i++) {
		struct held drained = {};
		ktime_t begin;

		if (file->state == COLD) {
			err = hold(&drained, 0, DRAINED, true);
			if (err)
				return err;
		}
		begin = ktime_get();
		err = file->fill_and_empty(&bench, file->count);
		seq_printf(m, "%lld 1\n", ktime_sub(ktime_get(), begin));
		if (file->state == COLD)
			release(&drained);
	}
	return err;
}

static int file_show(struct seq_file *m, void *v)
{
	const struct measurement *file = m->private;
	struct held pages = {}, pairs = {};
	int err = 0;

	mutex_lock(&bench.lock);
	if (file->state == FRAGMENTED)
		err = fragment(&pages, &pairs);
	if (!err)
		err = make_rounds(m, file);
	release(&pairs);
	release(&pages);
	mutex_unlock(&bench.lock);
	return err;
}
DEFINE_SHOW_ATTRIBUTE(file);

static const struct {
	const char *name;
	int (*fill_and_empty)(struct bench *b, unsigned int count);
} ways[] = {
	{ "single", single },
	{ "compound", compound },
	{ "bulk", bulk },
};

static const struct {
	const char *name;
	unsigned int count;
	enum state state;
} cases[] = {
	{ "32_warm", 32, WARM },
	{ "32_fragmented", 32, FRAGMENTED },
	{ "256_warm", 256, WARM },
	{ "256_cold", 256, COLD },
	{ "256_fragmented", 256, FRAGMENTED },
};

/* The pages that keep memory fragmented during a measurement. */
static struct held kept_pages, kept_pairs;

static int fragmented_set(void *data, u64 wanted)
{
	int err = 0;

	mutex_lock(&bench.lock);
	release(&kept_pairs);
	release(&kept_pages);
	kept_pairs = kept_pages = (struct held){};
	if (wanted)
		err = fragment(&kept_pages, &kept_pairs);
	mutex_unlock(&bench.lock);
	return err;
}
DEFINE_DEBUGFS_ATTRIBUTE(fragmented_fops, NULL, fragmented_set, "%llu\n");

static struct measurement files[ARRAY_SIZE(ways)][ARRAY_SIZE(cases)];
static struct dentry *dir;

static void pages_exit(void)
{
	debugfs_remove(dir);
	fragmented_set(NULL, 0);
	percpu_counter_destroy(&bench.counter);
	mempool_exit(&bench.pool);
}
module_exit(pages_exit);

static int __init pages_init(void)
{
	int err = mempool_init_page_pool(&bench.pool, MAX_PAGES, 0);

	if (err)
		return err;
	err = percpu_counter_init(&bench.counter, 0, GFP_KERNEL);
	if (err) {
		mempool_exit(&bench.pool);
		return err;
	}
	mutex_init(&bench.lock);
	dir = debugfs_create_dir("bench_pages_c", NULL);
	debugfs_create_file_unsafe("fragmented", 0200, dir, NULL, &fragmented_fops);
	for (int i = 0; i < ARRAY_SIZE(ways); i++) {
		struct dentry *way = debugfs_create_dir(ways[i].name, dir);

		for (int j = 0; j < ARRAY_SIZE(cases); j++) {
			files[i][j] = (struct measurement){
				ways[i].fill_and_empty, cases[j].count, cases[j].state,
			};
			debugfs_create_file(cases[j].name, 0400, way, &files[i][j], &file_fops);
		}
	}
	return 0;
}
module_init(pages_init);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Cost of the pages of a write, in C");
MODULE_LICENSE("GPL");
