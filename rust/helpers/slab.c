// SPDX-License-Identifier: GPL-2.0

#include <linux/slab.h>

/* With CONFIG_HARDENED_USERCOPY, a copy of other objects between the kernel and user space is a BUG(). */
__kscale_helper struct kmem_cache *kscale_helper_kmem_cache_create(const char *name,
								   unsigned int size,
								   unsigned int align,
								   slab_flags_t flags)
{
	return kmem_cache_create_usercopy(name, size, align, flags, 0, size, NULL);
}
