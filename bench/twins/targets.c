// SPDX-License-Identifier: GPL-2.0
/*
 * The twin of bench/targets.rs: the target `bench_c`, with the same table line.
 *
 * `hold` exists here only. It holds the bios to the second half of the device until the device is
 * suspended.
 */

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "twins.h"

/* As there. */
#define MAX_PAGES	256

/* Allocates a part of a bulk. The pool provides the rest. */
#define GFP_FIRST_PASS	(GFP_NOWAIT | __GFP_NORETRY | __GFP_NOMEMALLOC)

enum what { REMAP, SEGMENTS, QUEUE, SHARE, BOUNCE, END, HOLD };

static const char * const names[] = {
	"remap", "segments", "queue", "share", "bounce", "end", "hold",
};

struct bench {
	struct dm_dev *dev;
	enum what what;
	struct workqueue_struct *queue;
	struct bio_set bios;
	mempool_t pages;
	spinlock_t lock;
	struct bio_list held;
};

struct per_bio {
	struct bench *bench;
	struct bio *bio;
	sector_t sector;
	struct work_struct work;
};

static void bench_free(struct dm_target *ti, struct bench *b)
{
	mempool_exit(&b->pages);
	bioset_exit(&b->bios);
	if (b->queue)
		destroy_workqueue(b->queue);
	if (b->dev)
		dm_put_device(ti, b->dev);
	kfree(b);
}

static void bench_dtr(struct dm_target *ti)
{
	bench_free(ti, ti->private);
}

static int bench_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct bench *b;
	int what, err;

	if (argc != 2) {
		ti->error = "wrong number of arguments";
		return -EINVAL;
	}
	what = match_string(names, ARRAY_SIZE(names), argv[1]);
	if (what < 0) {
		ti->error = "unknown name";
		return what;
	}
	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	b->what = what;
	spin_lock_init(&b->lock);
	bio_list_init(&b->held);
	b->queue = alloc_workqueue("bench_targets_c", WQ_MEM_RECLAIM | WQ_PERCPU, 0);
	err = b->queue ? 0 : -ENOMEM;
	err = err ?: dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &b->dev);
	err = err ?: bioset_init(&b->bios, 1, 0, BIOSET_NEED_BVECS | BIOSET_PERCPU_CACHE);
	err = err ?: mempool_init_page_pool(&b->pages, MAX_PAGES, 0);
	if (err) {
		ti->error = "no device, or no memory";
		bench_free(ti, b);
		return err;
	}
	ti->private = b;
	ti->per_io_data_size = sizeof(struct per_bio);
	ti->accounts_remapped_io = true;
	return 0;
}

static void submit(struct work_struct *work)
{
	struct per_bio *per_bio = container_of(work, struct per_bio, work);
	struct bio *bio = per_bio->bio;

	bio_set_dev(bio, per_bio->bench->dev->bdev);
	bio->bi_iter.bi_sector = per_bio->sector;
	dm_submit_bio_remap(bio, NULL);
}

static void share_end_io(struct bio *clone)
{
	struct per_bio *per_bio = clone->bi_private;
	struct bio *bio = per_bio->bio;

	bio->bi_status = clone->bi_status;
	bio_put(clone);
	bio_endio(bio);
}

static void share(struct bench *b, struct per_bio *per_bio)
{
	struct bio *clone = bio_alloc_clone(b->dev->bdev, per_bio->bio, GFP_NOIO, &b->bios);

	clone->bi_private = per_bio;
	clone->bi_end_io = share_end_io;
	clone->bi_iter.bi_sector = per_bio->sector;
	dm_submit_bio_remap(per_bio->bio, clone);
}

/* As blk_crypto_fallback_encrypt_endio() in block/blk-crypto-fallback.c. */
static void bounce_end_io(struct bio *clone)
{
	struct per_bio *per_bio = clone->bi_private;
	struct page **pages = (struct page **)clone->bi_io_vec;
	struct bio *bio = per_bio->bio;
	unsigned int kept, i;
	struct bio_vec *bv;

	bio_for_each_bvec_all(bv, clone, i)
		pages[i] = bv->bv_page;
	kept = mempool_free_bulk(&per_bio->bench->pages, (void **)pages, clone->bi_vcnt);
	while (kept < clone->bi_vcnt)
		__free_page(pages[kept++]);
	bio->bi_status = clone->bi_status;
	bio_put(clone);
	bio_endio(bio);
}

/* As blk_crypto_alloc_enc_bio() there. */
static void bounce(struct bench *b, struct per_bio *per_bio)
{
	unsigned int left = per_bio->bio->bi_iter.bi_size;
	unsigned int count = DIV_ROUND_UP(left, PAGE_SIZE), flags, got;
	struct page **pages;
	struct bio *clone;

	clone = bio_alloc_bioset(b->dev->bdev, count, per_bio->bio->bi_opf, GFP_NOIO, &b->bios);
	pages = (struct page **)clone->bi_io_vec;
	pages += count * (sizeof(struct bio_vec) / sizeof(*pages) - 1);
	memset(pages, 0, count * sizeof(*pages));
	flags = memalloc_noio_save();
	got = alloc_pages_bulk(GFP_FIRST_PASS, count, pages);
	if (got < count)
		mempool_alloc_bulk(&b->pages, (void **)pages + got, count - got);
	memalloc_noio_restore(flags);
	for (unsigned int i = 0; i < count; i++) {
		unsigned int len = min_t(unsigned int, left, PAGE_SIZE);

		__bio_add_page(clone, pages[i], len, 0);
		left -= len;
	}
	if (bio_data_dir(per_bio->bio) == WRITE)
		bio_copy_data(clone, per_bio->bio);
	clone->bi_ioprio = per_bio->bio->bi_ioprio;
	clone->bi_private = per_bio;
	clone->bi_end_io = bounce_end_io;
	clone->bi_iter.bi_sector = per_bio->sector;
	dm_submit_bio_remap(per_bio->bio, clone);
}

/* Holds a bio, or remaps it. */
static int hold(struct dm_target *ti, struct bench *b, struct per_bio *per_bio)
{
	struct bio *bio = per_bio->bio;

	if (per_bio->sector < ti->len / 2) {
		bio_set_dev(bio, b->dev->bdev);
		return DM_MAPIO_REMAPPED;
	}
	spin_lock(&b->lock);
	bio_list_add(&b->held, bio);
	spin_unlock(&b->lock);
	return DM_MAPIO_SUBMITTED;
}

static void bench_presuspend(struct dm_target *ti)
{
	struct bench *b = ti->private;
	struct bio_list held;
	struct bio *bio;

	spin_lock(&b->lock);
	bio_list_init(&held);
	bio_list_merge_init(&held, &b->held);
	spin_unlock(&b->lock);
	while ((bio = bio_list_pop(&held)))
		bio_endio(bio);
}

static int bench_map(struct dm_target *ti, struct bio *bio)
{
	struct per_bio *per_bio = dm_per_bio_data(bio, sizeof(struct per_bio));
	struct bench *b = ti->private;
	struct bvec_iter iter;
	struct bio_vec bv;

	per_bio->bench = b;
	per_bio->bio = bio;
	per_bio->sector = dm_target_offset(ti, bio->bi_iter.bi_sector);

	switch (b->what) {
	case SEGMENTS:
		bio_for_each_segment(bv, bio, iter)
			black_box(bv.bv_len);
		fallthrough;
	case REMAP:
		bio_set_dev(bio, b->dev->bdev);
		bio->bi_iter.bi_sector = per_bio->sector;
		return DM_MAPIO_REMAPPED;
	case QUEUE:
		INIT_WORK(&per_bio->work, submit);
		queue_work(b->queue, &per_bio->work);
		return DM_MAPIO_SUBMITTED;
	case SHARE:
		share(b, per_bio);
		return DM_MAPIO_SUBMITTED;
	case BOUNCE:
		bounce(b, per_bio);
		return DM_MAPIO_SUBMITTED;
	case END:
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	case HOLD:
		return hold(ti, b, per_bio);
	}
	return DM_MAPIO_KILL;
}

static int bench_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	return DM_ENDIO_DONE;
}

static struct target_type bench_target = {
	.name = "bench_c",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = bench_ctr,
	.dtr = bench_dtr,
	.map = bench_map,
	.end_io = bench_end_io,
	.presuspend = bench_presuspend,
};
module_dm(bench);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Cost of the calls of a device-mapper target, in C");
MODULE_LICENSE("GPL");
