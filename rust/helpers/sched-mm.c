// SPDX-License-Identifier: GPL-2.0

#include <linux/sched/mm.h>

__kscale_helper unsigned int kscale_helper_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

__kscale_helper void kscale_helper_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

__kscale_helper unsigned int kscale_helper_memalloc_noreclaim_save(void)
{
	return memalloc_noreclaim_save();
}

__kscale_helper void kscale_helper_memalloc_noreclaim_restore(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
}

__kscale_helper void kscale_helper_fs_reclaim_acquire(gfp_t gfp_mask)
{
	fs_reclaim_acquire(gfp_mask);
}

__kscale_helper void kscale_helper_fs_reclaim_release(gfp_t gfp_mask)
{
	fs_reclaim_release(gfp_mask);
}
