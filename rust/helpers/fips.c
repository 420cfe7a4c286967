// SPDX-License-Identifier: GPL-2.0

#include <linux/fips.h>

/* fips_enabled is a variable or a macro. */
__kscale_helper bool kscale_helper_fips_enabled(void)
{
	return fips_enabled;
}
