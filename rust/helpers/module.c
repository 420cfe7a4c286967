// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>

#ifndef CONFIG_MODULE_UNLOAD
#error "a module whose init function fails is freed while it is in use"
#endif

#ifndef CONFIG_SYSFS
#error "a refused parameter cannot be told from a failed init function"
#endif

__kscale_helper bool kscale_helper_within_module(unsigned long addr, const struct module *mod)
{
	return within_module(addr, mod);
}

/* As in kernel/module/internal.h, which modules cannot include. */
struct kscale_module_use {
	struct list_head source_list;
	struct list_head target_list;
	struct module *source, *target;
};

/* Whether mod is linked against symbols of other. Does not change after mod is loaded. */
__kscale_helper bool kscale_helper_module_uses(const struct module *mod,
					       const struct module *other)
{
	const struct kscale_module_use *use;

	if (mod)
		list_for_each_entry(use, &mod->target_list, target_list)
			if (use->target == other)
				return true;
	return false;
}

/*
 * Whether the init function of a going module may have run: false if the kernel has refused a parameter.
 * The module has its directory in sysfs from then on until it is freed.
 */
__kscale_helper bool kscale_helper_module_may_have_run(const struct module *mod)
{
	return mod->mkobj.kobj.state_in_sysfs;
}
