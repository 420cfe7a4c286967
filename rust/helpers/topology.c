// SPDX-License-Identifier: GPL-2.0

#include <linux/topology.h>

__kscale_helper int kscale_helper_numa_node(void)
{
	return numa_node_id();
}
