// SPDX-License-Identifier: GPL-2.0

#include <linux/rcupdate.h>

__kscale_helper void kscale_helper_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}
