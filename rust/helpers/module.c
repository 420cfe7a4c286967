// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>

__kscale_helper bool kscale_helper_within_module(unsigned long addr, const struct module *mod)
{
	return within_module(addr, mod);
}
