// SPDX-License-Identifier: GPL-2.0

#include <linux/memcontrol.h>

__kscale_helper u64 kscale_helper_mem_cgroup_id(struct mem_cgroup *memcg)
{
	return mem_cgroup_id(memcg);
}
