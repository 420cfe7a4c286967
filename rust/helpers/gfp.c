// SPDX-License-Identifier: GPL-2.0

#include <linux/gfp.h>
#include <linux/topology.h>

__kscale_helper unsigned long kscale_helper_alloc_pages_bulk(gfp_t gfp, unsigned long nr_pages,
							     struct page **page_array)
{
	return alloc_pages_bulk(gfp, nr_pages, page_array);
}

/* Allocates from the nearest node with memory. Most C code uses cpu_to_node() for this. */
__kscale_helper struct page *kscale_helper_alloc_page_near(gfp_t gfp, unsigned int cpu)
{
	return alloc_pages_node(cpu_to_mem(cpu), gfp, 0);
}
