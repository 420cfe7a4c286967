// SPDX-License-Identifier: GPL-2.0
/*
 * Two flushes of an IOTLB that overlap while the flush queue of a CPU is full.
 *
 * An IOMMU of software without page tables, with an aperture of 2048 pages, and a platform device behind it.
 * The module maps pages and unmaps them until the aperture would be used up if ranges were lost. It holds the
 * flush of the timer on one CPU while it fills the flush queue of another CPU. The load of the module fails with
 * ENOSPC if ranges were lost.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#define APERTURE_PAGES 2048
/* IOVA_DEFAULT_FQ_SIZE of drivers/iommu/dma-iommu.c. */
#define FQ_SIZE 256
/* A loss of FQ_SIZE ranges in every fourth round uses up the aperture. */
#define ROUNDS (4 * APERTURE_PAGES / FQ_SIZE)
#define TRIES 100
/* The limits of the waits for the timer, which runs after 10 ms, and for the queue to be full. */
#define TIMER_LIMIT_NS NSEC_PER_SEC
#define HOLD_LIMIT_NS (10 * NSEC_PER_SEC)

static struct platform_device *pdev;
static struct page *page;
static dma_addr_t addrs[FQ_SIZE];
/* The CPU that starts the timer, and the CPU whose queue is filled. */
static unsigned int timer_cpu, queue_cpu;

/* What a flush on another CPU than queue_cpu does, and FULL if the aperture is used up. */
enum { RETURN, HOLD, HELD, FULL };
static atomic_t flush_state = ATOMIC_INIT(RETURN);

static void flush_iotlb_all(struct iommu_domain *domain)
{
	u64 end_ns = ktime_get_mono_fast_ns() + HOLD_LIMIT_NS;

	if (raw_smp_processor_id() == queue_cpu || atomic_cmpxchg(&flush_state, HOLD, HELD) != HOLD)
		return;
	while (atomic_read(&flush_state) == HELD && ktime_get_mono_fast_ns() < end_ns)
		cpu_relax();
}

static int attach_dev(struct iommu_domain *domain, struct device *dev, struct iommu_domain *old)
{
	return 0;
}

static int map_pages(struct iommu_domain *domain, unsigned long iova, phys_addr_t paddr, size_t pgsize,
		     size_t pgcount, int prot, gfp_t gfp, size_t *mapped)
{
	*mapped = pgsize * pgcount;
	return 0;
}

static size_t unmap_pages(struct iommu_domain *domain, unsigned long iova, size_t pgsize, size_t pgcount,
			  struct iommu_iotlb_gather *gather)
{
	return pgsize * pgcount;
}

static phys_addr_t iova_to_phys(struct iommu_domain *domain, dma_addr_t iova)
{
	return page_to_phys(page) + offset_in_page(iova);
}

static void domain_free(struct iommu_domain *domain)
{
	kfree(domain);
}

static const struct iommu_domain_ops domain_ops = {
	.attach_dev = attach_dev,
	.map_pages = map_pages,
	.unmap_pages = unmap_pages,
	.flush_iotlb_all = flush_iotlb_all,
	.iova_to_phys = iova_to_phys,
	.free = domain_free,
};

static struct iommu_domain *domain_alloc_paging(struct device *dev)
{
	struct iommu_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL);

	if (!domain)
		return ERR_PTR(-ENOMEM);
	domain->pgsize_bitmap = PAGE_SIZE;
	domain->geometry.aperture_end = APERTURE_PAGES * PAGE_SIZE - 1;
	domain->geometry.force_aperture = true;
	return domain;
}

static struct iommu_device iommu;

static struct iommu_device *probe_device(struct device *dev)
{
	return pdev && dev == &pdev->dev ? &iommu : ERR_PTR(-ENODEV);
}

static bool capable_of(struct device *dev, enum iommu_cap cap)
{
	return cap == IOMMU_CAP_CACHE_COHERENCY || cap == IOMMU_CAP_DEFERRED_FLUSH;
}

static const struct iommu_ops ops = {
	.capable = capable_of,
	.domain_alloc_paging = domain_alloc_paging,
	.probe_device = probe_device,
	.device_group = generic_device_group,
	.default_domain_ops = &domain_ops,
	.owner = THIS_MODULE,
};

static long map_all(void)
{
	for (int i = 0; i < FQ_SIZE; i++) {
		addrs[i] = dma_map_page(&pdev->dev, page, 0, PAGE_SIZE, DMA_TO_DEVICE);
		if (dma_mapping_error(&pdev->dev, addrs[i])) {
			while (i--)
				dma_unmap_page(&pdev->dev, addrs[i], PAGE_SIZE, DMA_TO_DEVICE);
			return -ENOSPC;
		}
	}
	return 0;
}

/* The timer that queue_iova() starts here cannot run in between. */
static void unmap_all(void)
{
	unsigned long flags;

	local_irq_save(flags);
	for (int i = 0; i < FQ_SIZE; i++)
		dma_unmap_page(&pdev->dev, addrs[i], PAGE_SIZE, DMA_TO_DEVICE);
	local_irq_restore(flags);
}

/*
 * Maps and unmaps a page, which starts the timer on timer_cpu, and waits for the timer. An idle CPU may leave its
 * timers to another CPU, so the wait keeps this CPU busy.
 */
static void start_timer(struct work_struct *work)
{
	u64 end_ns = ktime_get_mono_fast_ns() + TIMER_LIMIT_NS;
	dma_addr_t addr = dma_map_page(&pdev->dev, page, 0, PAGE_SIZE, DMA_TO_DEVICE);

	if (dma_mapping_error(&pdev->dev, addr)) {
		atomic_set(&flush_state, FULL);
		return;
	}
	dma_unmap_page(&pdev->dev, addr, PAGE_SIZE, DMA_TO_DEVICE);
	while (atomic_read(&flush_state) == HOLD && ktime_get_mono_fast_ns() < end_ns) {
		cpu_relax();
		cond_resched();
	}
	atomic_cmpxchg(&flush_state, HOLD, RETURN);
}

static DECLARE_WORK(timer_work, start_timer);

/* Holds the flush of the timer. The wait does not sleep: the timer that ends the sleep may be held, too. */
static long hold_flush(void)
{
	for (int try = 0; try < TRIES; try++) {
		int state;

		atomic_set(&flush_state, HOLD);
		schedule_work_on(timer_cpu, &timer_work);
		while ((state = atomic_read(&flush_state)) == HOLD) {
			cpu_relax();
			cond_resched();
		}
		if (state == HELD)
			return 0;
		flush_work(&timer_work);
		if (state == FULL)
			return -ENOSPC;
	}
	return -ETIME;
}

static long one_round(void)
{
	long ret = map_all();

	if (ret)
		return ret;
	ret = hold_flush();
	unmap_all();
	atomic_set(&flush_state, RETURN);
	flush_work(&timer_work);
	/* The timers of both CPUs, of IOVA_DEFAULT_FQ_TIMEOUT ms, empty all queues. */
	msleep(200);
	return ret;
}

/* Runs on queue_cpu, where no flush is held. */
static long run(void *unused)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pdev->dev);

	if (!domain || domain->type != IOMMU_DOMAIN_DMA_FQ) {
		pr_err("the device has no flush queue: iommu.strict=0 is needed\n");
		return -EOPNOTSUPP;
	}
	for (int round = 0; round < ROUNDS; round++) {
		long ret = one_round();

		if (ret) {
			pr_err("round %d: error %ld\n", round, ret);
			return ret;
		}
	}
	pr_info("%d rounds lost no range\n", ROUNDS);
	return 0;
}

static int __init fq_overlap_init(void)
{
	long ret;

	timer_cpu = cpumask_first(cpu_online_mask);
	queue_cpu = cpumask_next(timer_cpu, cpu_online_mask);
	if (queue_cpu >= nr_cpu_ids)
		return -EOPNOTSUPP;
	page = alloc_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	ret = iommu_device_sysfs_add(&iommu, NULL, NULL, "fq_overlap");
	if (ret)
		goto free_page;
	ret = iommu_device_register(&iommu, &ops, NULL);
	if (ret)
		goto sysfs_remove;
	pdev = platform_device_alloc("fq_overlap", PLATFORM_DEVID_NONE);
	ret = pdev ? platform_device_add(pdev) : -ENOMEM;
	if (!ret) {
		ret = work_on_cpu(queue_cpu, run, NULL);
		platform_device_del(pdev);
	}
	platform_device_put(pdev);
	iommu_device_unregister(&iommu);
sysfs_remove:
	iommu_device_sysfs_remove(&iommu);
free_page:
	__free_page(page);
	return ret;
}

static void __exit fq_overlap_exit(void)
{
}

module_init(fq_overlap_init);
module_exit(fq_overlap_exit);
MODULE_DESCRIPTION("Overlapping flushes of an IOTLB");
MODULE_LICENSE("GPL");
