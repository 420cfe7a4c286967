// SPDX-License-Identifier: GPL-2.0

#include <linux/device-mapper.h>

__kscale_helper void kscale_helper_dm_stack_bs_limits(struct queue_limits *limits, unsigned int bs)
{
	dm_stack_bs_limits(limits, bs);
}
