// SPDX-License-Identifier: GPL-2.0

#include <linux/sched/task_stack.h>

__kscale_helper bool kscale_helper_object_is_on_stack(const void *obj)
{
	return object_is_on_stack(obj);
}
