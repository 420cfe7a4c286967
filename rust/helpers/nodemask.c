// SPDX-License-Identifier: GPL-2.0

#include <linux/nodemask.h>

/* nr_node_ids is a variable or a macro. */
__kscale_helper int kscale_helper_nr_nodes(void)
{
	return nr_node_ids;
}

__kscale_helper bool kscale_helper_node_possible(int nid)
{
	return node_possible(nid);
}
