/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KSCALE_DM_TARGET_H
#define _KSCALE_DM_TARGET_H

#include <linux/device-mapper.h>

/* What iterate_devices() calls for each device. */
struct kscale_callout {
	iterate_devices_callout_fn func;
};

/* A target type that is registered. */
struct kscale_target_type {
	struct target_type raw;
	/* Implement the functions of raw with these names. */
	void (*status)(struct dm_target *ti, unsigned int type, unsigned int flags, char *result,
		       unsigned int maxlen);
	int (*iterate_devices)(struct dm_target *ti, const struct kscale_callout *callout,
			       void *data);
};

void kscale_target_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			  char *result, unsigned int maxlen);
int kscale_target_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn func,
				  void *data);

#endif
