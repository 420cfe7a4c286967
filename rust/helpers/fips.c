// SPDX-License-Identifier: GPL-2.0

#include <linux/fips.h>

/* A variable or a constant. */
__kscale_helper bool kscale_helper_fips_enabled(void)
{
	return fips_enabled;
}
