// SPDX-License-Identifier: GPL-2.0

#include <linux/kmemleak.h>

__kscale_helper void kscale_helper_kmemleak_not_leak(const void *ptr)
{
	kmemleak_not_leak(ptr);
}
