// SPDX-License-Identifier: GPL-2.0

#include <linux/compiler.h>
#include <linux/sched/mm.h>

/*
 * data_race(): only the task itself changes its flags, but others read them meanwhile, such as
 * kthread_is_per_cpu() in kernel/kthread.c for the scheduler. The kernel marks neither side.
 */

__kscale_helper unsigned int kscale_helper_memalloc_noio_save(void)
{
	return data_race(memalloc_noio_save());
}

__kscale_helper void kscale_helper_memalloc_noio_restore(unsigned int flags)
{
	data_race(({ memalloc_noio_restore(flags); 0; }));
}

__kscale_helper unsigned int kscale_helper_memalloc_noreclaim_save(void)
{
	return data_race(memalloc_noreclaim_save());
}

__kscale_helper void kscale_helper_memalloc_noreclaim_restore(unsigned int flags)
{
	data_race(({ memalloc_noreclaim_restore(flags); 0; }));
}

__kscale_helper void kscale_helper_fs_reclaim_acquire(gfp_t gfp_mask)
{
	fs_reclaim_acquire(gfp_mask);
}

__kscale_helper void kscale_helper_fs_reclaim_release(gfp_t gfp_mask)
{
	fs_reclaim_release(gfp_mask);
}
