// SPDX-License-Identifier: GPL-2.0

#include <linux/sched.h>

/* If true, bios that this task submits are queued until the running ->submit_bio() returns. */
__kscale_helper bool kscale_helper_current_has_bio_list(void)
{
	return current->bio_list;
}

__kscale_helper void kscale_helper_migrate_disable(void)
{
	migrate_disable();
}

__kscale_helper void kscale_helper_migrate_enable(void)
{
	migrate_enable();
}

__kscale_helper bool kscale_helper_current_is_memalloc(void)
{
	return current->flags & PF_MEMALLOC;
}
