// SPDX-License-Identifier: GPL-2.0

#include <linux/rwsem.h>

__kscale_helper bool kscale_helper_rwsem_is_contended(struct rw_semaphore *sem)
{
	return rwsem_is_contended(sem);
}
