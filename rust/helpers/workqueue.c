// SPDX-License-Identifier: GPL-2.0

#include <linux/workqueue.h>

/*
 * Acquires an item that is not queued, as queue_work_on() does. Nothing else uses its `entry` then.
 */
__kscale_helper bool kscale_helper_work_set_pending(struct work_struct *work)
{
	return !test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work));
}

/*
 * Releases an item that was acquired, and not queued.
 */
__kscale_helper void kscale_helper_work_clear_pending(struct work_struct *work)
{
	INIT_LIST_HEAD(&work->entry);
	clear_bit_unlock(WORK_STRUCT_PENDING_BIT, work_data_bits(work));
}
