// SPDX-License-Identifier: GPL-2.0

#include <linux/sched.h>

__kscale_helper bool kscale_helper_current_is_memalloc(void)
{
	return current->flags & PF_MEMALLOC;
}
