// SPDX-License-Identifier: GPL-2.0

#include <linux/refcount.h>

__kscale_helper bool kscale_helper_refcount_inc_not_zero(refcount_t *r)
{
	return refcount_inc_not_zero(r);
}
