// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of a target type whose C type Rust cannot express.
 *
 * With CONFIG_CFI, a function must have the type of the pointer that it is called through. For rustc, an
 * enumeration of C is an integer, and a pointer to a function that may be NULL is an `Option`. The types
 * of such parameters differ from those of C.
 */

#include <linux/container_of.h>
#include <linux/export.h>

#include "target.h"

static const struct kscale_target_type *type_of(const struct dm_target *ti)
{
	return container_of(ti->type, struct kscale_target_type, raw);
}

void kscale_target_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			  char *result, unsigned int maxlen)
{
	type_of(ti)->status(ti, type, flags, result, maxlen);
}
EXPORT_SYMBOL_GPL(kscale_target_status);

int kscale_target_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn func,
				  void *data)
{
	const struct kscale_callout callout = { .func = func };

	return type_of(ti)->iterate_devices(ti, &callout, data);
}
EXPORT_SYMBOL_GPL(kscale_target_iterate_devices);
