// SPDX-License-Identifier: GPL-2.0

#include <linux/string.h>

__kscale_helper void kscale_helper_memzero_explicit(void *s, size_t count)
{
	memzero_explicit(s, count);
}
