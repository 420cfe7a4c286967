// SPDX-License-Identifier: GPL-2.0

#include <linux/rculist.h>

__kscale_helper void kscale_helper_list_add_rcu(struct list_head *new, struct list_head *head)
{
	list_add_rcu(new, head);
}

__kscale_helper void kscale_helper_list_add_tail_rcu(struct list_head *new, struct list_head *head)
{
	list_add_tail_rcu(new, head);
}

__kscale_helper void kscale_helper_list_del_rcu(struct list_head *entry)
{
	list_del_rcu(entry);
}

/* The step of list_for_each_entry_rcu() and list_for_each_entry_srcu(). */
__kscale_helper struct list_head *kscale_helper_list_next_rcu(struct list_head *list)
{
	return rcu_dereference_raw(list_next_rcu(list));
}
