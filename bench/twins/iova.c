// SPDX-License-Identifier: GPL-2.0
/*
 * The twins of bench/wrappers/iova.rs.
 *
 * The flush queue is that of drivers/iommu/dma-iommu.c, which does not export it, without the page
 * tables to free and without the choice of rings.
 */

#include <linux/atomic.h>
#include <linux/iova.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

#include "twins.h"

/* As there. */
#define SIZE_PFNS	4
#define LIMIT_PFN	0xfffffUL
#define TIMEOUT_MS	60000

#define FQ_SIZE		256

struct fq_entry {
	unsigned long pfn;
	unsigned long pages;
	u64 counter;
};

struct fq {
	spinlock_t lock;
	unsigned int head, tail;
	struct fq_entry entries[FQ_SIZE];
};

static struct bench {
	struct iova_domain domain;
	struct fq __percpu *fqs;
	atomic64_t flush_start_cnt;
	atomic64_t flush_finish_cnt;
	struct timer_list timer;
	atomic_t timer_on;
	atomic64_t flushes;
} bench;

static noinline void flush_iotlb_all(struct bench *b)
{
	atomic64_inc(&b->flushes);
}

static void fq_flush_iotlb(struct bench *b)
{
	atomic64_inc(&b->flush_start_cnt);
	flush_iotlb_all(b);
	atomic64_inc(&b->flush_finish_cnt);
}

static void fq_ring_free(struct bench *b, struct fq *fq)
{
	u64 counter = atomic64_read(&b->flush_finish_cnt);

	for (; fq->head != fq->tail; fq->head = (fq->head + 1) & (FQ_SIZE - 1)) {
		struct fq_entry *entry = &fq->entries[fq->head];

		if (entry->counter >= counter)
			break;
		free_iova_fast(&b->domain, entry->pfn, entry->pages);
	}
}

static void fq_flush_timeout(struct timer_list *t)
{
	struct bench *b = timer_container_of(b, t, timer);
	unsigned long flags;
	int cpu;

	atomic_set(&b->timer_on, 0);
	fq_flush_iotlb(b);
	for_each_possible_cpu(cpu) {
		struct fq *fq = per_cpu_ptr(b->fqs, cpu);

		spin_lock_irqsave(&fq->lock, flags);
		fq_ring_free(b, fq);
		spin_unlock_irqrestore(&fq->lock, flags);
	}
}

static __always_inline void queue_iova(struct bench *b, unsigned long pfn, unsigned long pages)
{
	struct fq_entry *entry;
	unsigned long flags;
	struct fq *fq;

	smp_mb();
	fq = raw_cpu_ptr(b->fqs);
	spin_lock_irqsave(&fq->lock, flags);
	fq_ring_free(b, fq);
	if (((fq->tail + 1) & (FQ_SIZE - 1)) == fq->head) {
		fq_flush_iotlb(b);
		fq_ring_free(b, fq);
	}
	entry = &fq->entries[fq->tail];
	fq->tail = (fq->tail + 1) & (FQ_SIZE - 1);
	entry->pfn = pfn;
	entry->pages = pages;
	entry->counter = atomic64_read(&b->flush_start_cnt);
	spin_unlock_irqrestore(&fq->lock, flags);

	if (!atomic_read(&b->timer_on) && !atomic_xchg(&b->timer_on, 1))
		mod_timer(&b->timer, jiffies + msecs_to_jiffies(TIMEOUT_MS));
}

static __always_inline void alloc_and_free(struct bench *b)
{
	struct iova *iova = alloc_iova(&b->domain, SIZE_PFNS, LIMIT_PFN, true);

	if (iova)
		free_iova(&b->domain, iova->pfn_lo);
}

static __always_inline void alloc_and_free_fast(struct bench *b)
{
	unsigned long pfn = alloc_iova_fast(&b->domain, SIZE_PFNS, LIMIT_PFN, false);

	if (pfn)
		free_iova_fast(&b->domain, pfn, SIZE_PFNS);
}

static __always_inline void alloc_and_queue(struct bench *b)
{
	unsigned long pfn = alloc_iova_fast(&b->domain, SIZE_PFNS, LIMIT_PFN, false);

	if (pfn)
		queue_iova(b, pfn, SIZE_PFNS);
}

#define CASES(CASE)							\
	CASE(alloc_iova, alloc_and_free(b))				\
	CASE(alloc_iova_fast, alloc_and_free_fast(b))			\
	CASE(alloc_iova_magazine, alloc_and_free_fast(b))		\
	CASE(queue_iova, alloc_and_queue(b))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	int cpu, err;

	err = iova_cache_get();
	if (err)
		return err;
	init_iova_domain(&bench.domain, PAGE_SIZE, 1);
	timer_setup(&bench.timer, fq_flush_timeout, 0);
	bench.fqs = alloc_percpu(struct fq);
	if (!bench.fqs)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		spin_lock_init(&per_cpu_ptr(bench.fqs, cpu)->lock);
	return iova_domain_init_rcaches(&bench.domain);
}

static void exit(void)
{
	/* init() sets the granule first, after it has the caches. */
	if (!bench.domain.granule)
		return;
	timer_delete_sync(&bench.timer);
	free_percpu(bench.fqs);
	/* Frees the queued ranges, too. */
	put_iova_domain(&bench.domain);
	iova_cache_put();
}

const struct twins iova_twins = { init, exit, add_cases };
