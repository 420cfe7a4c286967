// SPDX-License-Identifier: GPL-2.0

#include <linux/cpuhotplug.h>

__kscale_helper int kscale_helper_cpuhp_setup_state_multi(enum cpuhp_state state, const char *name,
							  int (*startup)(unsigned int cpu,
									 struct hlist_node *node),
							  int (*teardown)(unsigned int cpu,
									  struct hlist_node *node))
{
	return cpuhp_setup_state_multi(state, name, startup, teardown);
}

__kscale_helper int kscale_helper_cpuhp_state_add_instance(enum cpuhp_state state,
							   struct hlist_node *node)
{
	return cpuhp_state_add_instance(state, node);
}

__kscale_helper int kscale_helper_cpuhp_state_remove_instance(enum cpuhp_state state,
							      struct hlist_node *node)
{
	return cpuhp_state_remove_instance(state, node);
}

__kscale_helper void kscale_helper_cpuhp_remove_multi_state(enum cpuhp_state state)
{
	cpuhp_remove_multi_state(state);
}
