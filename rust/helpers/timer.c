// SPDX-License-Identifier: GPL-2.0

#include <linux/timer.h>

__kscale_helper void kscale_helper_mod_timer_msecs(struct timer_list *timer, unsigned int msecs)
{
	mod_timer(timer, jiffies + msecs_to_jiffies(msecs));
}

__kscale_helper void kscale_helper_timer_setup(struct timer_list *timer,
					       void (*function)(struct timer_list *timer))
{
	timer_setup(timer, function, 0);
}
